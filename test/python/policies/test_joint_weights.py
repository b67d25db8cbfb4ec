"""Weights of LeRobot's policies: a strict audit, and what their own loaders lose."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from joint_twins import Case, build, directory, modules, spec
from pool import Pool
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor
from vla_runtime import mesh, sharding
from vla_runtime.errors import UserError
from vla_runtime.partition import Partition
from vla_runtime.policies import joint
from vla_runtime.policies.audit import EMBEDDING, HEAD, PolicyWeights, check_stock_loading
from vla_runtime.policies.spec import PolicySpec, build_policy
from vla_runtime.policies.training import prepare
from vla_runtime.weights import write_weights


def written(folder: Path, tensors: Iterable[tuple[str, Tensor]]) -> Path:
    folder.mkdir(exist_ok=True)
    write_weights(folder, tensors)
    # The states of the processors stand beside the weights and are none.
    save_file(
        {"action.mean": torch.zeros(4)}, folder / "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
    )
    return folder


def trained(kind: str) -> dict[str, Tensor]:
    """Weights of a policy that was trained since it was built; with tied tensors once, as LeRobot saves them."""
    policy = build(kind, seed=9)
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in policy.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor.detach().clone()))
    return dict(tensors.values())


def load(folder: Path, kind: str, **options: Any) -> dict[str, Tensor]:
    policy = build(kind)
    PolicyWeights(str(folder), None, policy, **options).load(policy)
    return policy.state_dict()


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_weights_come_back_bit_by_bit(tmp_path: Path, kind: str) -> None:
    expected = build(kind, seed=9).state_dict()
    folder = written(tmp_path / "policy", trained(kind).items())
    found = load(folder, kind)
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert (kind == "xvla") == (len(trained(kind)) < len(expected))


def declaration(kind: str) -> PolicySpec:
    """Of the small policy."""
    small, plain = tiny.config(kind, directory()), type(tiny.config(kind, directory()))
    ours = {"input_features", "output_features", "normalization_mapping", "device", "push_to_hub", "use_peft"}
    changed = {
        field.name: getattr(small, field.name)
        for field in dataclasses.fields(plain)
        if field.name not in ours and not field.name.startswith("_")
    }
    return dataclasses.replace(spec(kind), config={k: v for k, v in changed.items() if v is not None})


def _meta(kind: str, folder: str) -> dict[str, Tensor]:
    case = Case(kind)  # pyright: ignore[reportArgumentType]
    with torch.device("meta"), tiny.small():
        policy = build_policy(declaration(kind))
    assert all(parameter.is_meta for parameter in policy.parameters())
    assert not any(buffer.is_meta for buffer in policy.buffers())
    prepare(policy, declaration(kind))
    parts = Partition(policy, modules(case, joint.dead_parameters(policy)))
    sharding.shard(policy, mesh.device_mesh(shard=2, device="cpu"), parts)
    PolicyWeights(folder, None, policy).load(policy)
    state = policy.state_dict()
    return {n: (t.full_tensor() if isinstance(t, DTensor) else t).clone() for n, t in state.items()}


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_a_sharded_policy_on_the_meta_device_reads_its_part(policy_pool: Pool, tmp_path: Path, kind: str) -> None:
    """Without the output embeddings, which nothing reads: they become zero."""
    tensors = {name: tensor for name, tensor in trained(kind).items() if not name.endswith("lm_head.weight")}
    folder = written(tmp_path / "policy", tensors.items())
    expected = build(kind, seed=9).state_dict()
    for found in policy_pool.run(_meta, kind=kind, folder=str(folder)):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert torch.equal(found[name], torch.zeros_like(value) if name.endswith("lm_head.weight") else value), name


ODD: dict[str, tuple[Callable[[dict[str, Tensor]], Any], str]] = {
    "missing": (lambda t: t.pop(EMBEDDING.replace("embed_tokens", "layers.1.mlp.up_proj")), "missing \\(1\\)"),
    "too much": (lambda t: t.update(extra=torch.zeros(2)), "not in the model \\(1\\):\n    extra"),
    "other shape": (lambda t: t.update({HEAD: torch.zeros(3, 4)}), "other shape \\(1\\)"),
    "neither embedding": (lambda t: (t.pop(EMBEDDING), t.pop(HEAD)), re.escape(EMBEDDING)),
}


@pytest.mark.parametrize("what", ODD)
def test_what_does_not_fit_is_an_error(tmp_path: Path, what: str) -> None:
    change, message = ODD[what]
    tensors = trained("pi0")
    change(tensors)
    folder = written(tmp_path / "policy", tensors.items())
    with pytest.raises(UserError, match=message):
        load(folder, "pi0")


def test_further_differences_must_be_said(tmp_path: Path) -> None:
    tensors = trained("pi05")
    tensors["model.state_proj.weight"] = torch.zeros(2)
    taken = tensors.pop("model.time_mlp_in.bias")
    folder = written(tmp_path / "policy", tensors.items())
    found = load(folder, "pi05", allow_unexpected=["model.state_proj.*"], allow_missing=["model.time_mlp_in.bias"])
    assert torch.equal(found["model.time_mlp_in.bias"], build("pi05").state_dict()["model.time_mlp_in.bias"])
    assert not torch.equal(found["model.time_mlp_in.bias"], taken)


def test_a_directory_without_weights_or_with_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"type": "pi0"}))
    with pytest.raises(UserError, match="no directory of a LeRobot policy"):
        load(tmp_path, "pi0")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="holds an adapter"):
        load(tmp_path, "pi0")


# The token embedding of pi0 and pi0.5


def test_a_file_with_the_head_alone_fills_the_embedding(tmp_path: Path) -> None:
    """As openpi ties them; and its names lack the leading `model.`."""
    tensors = trained("pi0")
    tensors.pop(EMBEDDING)
    folder = written(tmp_path / "policy", ((n.removeprefix("model."), t) for n, t in tensors.items()))
    found = load(folder, "pi0")
    assert torch.equal(found[EMBEDDING], tensors[HEAD]) and torch.equal(found[HEAD], tensors[HEAD])


def stock(folder: Path, kind: str) -> dict[str, Tensor]:
    """As LeRobot's own loader reads it."""
    with tiny.small():
        return tiny.CLASSES[kind].from_pretrained(folder, config=tiny.config(kind, directory())).state_dict()


@pytest.mark.parametrize("kind", ["pi0", "pi05"])
@pytest.mark.parametrize("head", [torch.float32, torch.bfloat16], ids=str)
def test_a_trained_embedding_survives(tmp_path: Path, kind: str, head: torch.dtype) -> None:
    """Ours in any order of the file; LeRobot's own loader loses it with a narrower head, and the check says so."""
    tensors = trained(kind)
    tensors[HEAD] = tensors[HEAD].to(head)
    assert not torch.equal(tensors[HEAD].float(), tensors[EMBEDDING])
    folder = written(tmp_path / "policy", tensors.items())
    assert torch.equal(load(folder, kind)[EMBEDDING], tensors[EMBEDDING])
    if head == torch.float32:
        check_stock_loading(folder / "model.safetensors")
        assert torch.equal(stock(folder, kind)[EMBEDDING], tensors[EMBEDDING])
    else:
        with pytest.raises(UserError, match="Export both in one dtype"):
            check_stock_loading(folder / "model.safetensors")
        assert torch.equal(stock(folder, kind)[EMBEDDING], tensors[HEAD].float())


def test_what_lerobot_writes_survives_its_own_loader(tmp_path: Path) -> None:
    policy = build("pi0", seed=9)
    policy.save_pretrained(tmp_path)
    check_stock_loading(tmp_path / "model.safetensors")
    assert torch.equal(load(tmp_path, "pi0")[EMBEDDING], policy.state_dict()[EMBEDDING])


# X-VLA's older names


def test_the_older_layout_of_florence_is_read_as_lerobot_reads_it(tmp_path: Path) -> None:
    renamed = [
        (r"(vision_tower\.convs\.\d+)\.conv\.", r"\1.proj."),
        (r"(spatial_block|channel_block)\.(conv[12])\.", r"\1.\2.fn.dw."),
        (r"spatial_block\.norm1\.", "spatial_block.window_attn.norm."),
        (r"channel_block\.norm1\.", "channel_block.channel_attn.norm."),
        (r"(spatial_block|channel_block)\.norm2\.", r"\1.ffn.norm."),
        (r"(window_attn|channel_attn)\.(qkv|proj)\.", r"\1.fn.\2."),
        (r"(spatial_block|channel_block)\.ffn\.(fc[12])\.", r"\1.ffn.fn.net.\2."),
        (r"multi_modal_projector\.image_proj_norm\.", "image_proj_norm."),
        (r"multi_modal_projector\.image_position_embed\.", "image_pos_embed."),
        (r"multi_modal_projector\.visual_temporal_embed\.", "visual_temporal_embed."),
        (r"vlm\.language_model\.", "vlm.language_model.model."),
    ]
    # A square projection, which no shape would tell from its transpose.
    config = tiny.config("xvla", directory()).florence_config
    config["vision_config"]["embed_dim"] = [16, 32]
    policy = build("xvla", seed=9, florence_config=config)
    expected = policy.state_dict()
    older: dict[str, Tensor] = {}
    projection = "model.vlm.multi_modal_projector.image_projection.weight"
    for name, tensor in expected.items():
        if name == projection:
            older["model.vlm.image_projection"] = tensor.T.contiguous()
            continue
        for pattern, replacement in renamed if name.startswith("model.vlm.") else []:
            name = re.sub(pattern, replacement, name)
        older[name] = tensor.clone()
    older["model.vlm.language_model.final_logits_bias"] = torch.zeros(1, 3)
    folder = written(tmp_path / "policy", older.items())
    ours = build("xvla", florence_config=config)
    PolicyWeights(str(folder), None, ours).load(ours)
    theirs = tiny.CLASSES["xvla"].from_pretrained(
        folder, config=tiny.config("xvla", directory(), florence_config=config)
    )
    for name, value in expected.items():
        assert torch.equal(ours.state_dict()[name], value), name
        assert torch.equal(theirs.state_dict()[name], value), name
    assert load_file(folder / "model.safetensors").keys() != expected.keys()
