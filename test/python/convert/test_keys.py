"""The map between openpi's leaves and LeRobot's tensors, by name and shape, at full size too."""

import math
from collections.abc import Callable

import pytest
from vla_convert.answers import Answers
from vla_convert.keys import (
    EMBEDDING,
    EXPERT_HEAD,
    HEAD,
    Shape,
    Zeros,
    jax_sizes,
    leaf_shapes,
    openpi_tensors,
    sources,
    tensor_shapes,
    torch_sizes,
)
from vla_convert.lerobot_directory import lerobot_config
from vla_convert.policies import build
from vla_convert.sizes import Family, full_size
from vla_runtime.errors import UserError

PARAMETERS: dict[Family, tuple[int, int]] = {"pi0": (50, 3_238_048_528), "pi05": (51, 3_353_433_872)}
FAMILIES: tuple[Family, ...] = ("pi0", "pi05")


def count(shapes: dict[str, Shape]) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_leaf_is_used_once_by_element(family: Family) -> None:
    sizes = full_size(family)
    leaves, tensors = leaf_shapes(sizes), tensor_shapes(sizes)
    assert (len(leaves), count(leaves)) == PARAMETERS[family]
    used: dict[str, list[tuple[int | None, int | None]]] = {}
    for name, source in sources(sizes).items():
        if name != HEAD and not isinstance(source, Zeros):
            used.setdefault(source.leaf, []).append((source.layer, source.part))
    assert set(used) == set(leaves)
    assert all(len(set(places)) == len(places) for places in used.values())
    # Beside the two heads that openpi does not have, each element goes to one place.
    heads = math.prod(tensors[HEAD]) + math.prod(tensors[EXPERT_HEAD])
    assert count(tensors) == PARAMETERS[family][1] + heads


@pytest.mark.parametrize("family", FAMILIES)
def test_targets_are_lerobots_own_at_full_size(family: Family) -> None:
    """Its class on the meta device; another release may have other names."""
    sizes = full_size(family)
    told = Answers(
        50,
        48,
        {"base_0_rgb": "observation.images.top"},
        8,
        7,
        (False,) * 7,
        tuple("abcdefg"),
        True,
        50,
        None,
        "float32",
    )
    policy = build(lerobot_config(sizes, told), sizes)
    assert {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()} == tensor_shapes(sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_read_from_shapes(family: Family) -> None:
    sizes = full_size(family)
    assert jax_sizes(leaf_shapes(sizes), "here") == sizes
    assert torch_sizes(openpi_tensors(sizes), "here", prefix="") == sizes
    assert torch_sizes(tensor_shapes(sizes), "here", prefix="model.") == sizes
    assert sizes.published


def test_openpis_file_has_one_of_the_tied_names() -> None:
    names = openpi_tensors(full_size("pi0"))
    assert HEAD.removeprefix("model.") in names and EMBEDDING.removeprefix("model.") not in names


def without(name: str) -> Callable[[dict[str, Shape]], object]:
    return lambda leaves: leaves.pop(name)


def with_leaf(name: str, shape: Shape) -> Callable[[dict[str, Shape]], object]:
    return lambda leaves: leaves.update({name: shape})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("PaliGemma/img/head/bias"), r"missing \(1\):\n  PaliGemma/img/head/bias"),
        (with_leaf("PaliGemma/img/cls", (1, 1, 1152)), r"not known \(1\):\n  PaliGemma/img/cls"),
        (
            with_leaf("PaliGemma/llm/layers/mlp_1/linear", (18, 4095, 1024)),
            r"mlp_1/gating_einsum: \[18, 2, 1024, 4096\] instead of \[18, 2, 1024, 4095\]",
        ),
        (
            with_leaf("action_in_proj/bias", (1024, 1)),
            r"action_in_proj/bias: \[1024, 1\], which has 2 axes instead of 1",
        ),
        (with_leaf("action_out_proj/bias", (7,)), r"action_out_proj/bias: \[7\] instead of \[32\]"),
        (
            with_leaf("PaliGemma/llm/layers/attn/q_einsum/lora_a", (18, 8, 2048, 16)),
            r"holds LoRA leaves \(1, such as PaliGemma/llm/layers/attn/q_einsum/lora_a\).*would be a guess",
        ),
        (with_leaf("time_mlp_in/bias", (1024,)), "the heads of both pi0 and pi0.5"),
        (
            lambda leaves: [leaves.pop(name) for name in list(leaves) if not name.startswith("PaliGemma")],
            "neither pi0's state_proj nor pi0.5's time_mlp_in .*pi0-FAST",
        ),
    ],
)
def test_what_does_not_fit_is_named(change: Callable[[dict[str, Shape]], object], message: str) -> None:
    leaves = leaf_shapes(full_size("pi0"))
    change(leaves)
    with pytest.raises(UserError, match=message):
        jax_sizes(leaves, "here")


def test_missing_and_unknown_tensors_of_a_file_are_told_together() -> None:
    tensors = openpi_tensors(full_size("pi05"))
    del tensors["time_mlp_out.bias"]
    tensors["value_head.weight"] = (1, 1024)
    with pytest.raises(
        UserError, match=r"(?s)missing \(1\):\n  time_mlp_out.bias.*not known \(1\):\n  value_head.weight"
    ):
        torch_sizes(tensors, "here", prefix="")
