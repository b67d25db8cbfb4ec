"""The composed VLA as a whole: configuration, names, dtypes, determinism, parameters without gradient."""

import json
from typing import Any, cast

import pytest
import torch
from small_models import ACTIONS, LLAMA, batch, build, config, map_tower, partition, timm_tower
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils._pytree import tree_leaves
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

DECODERS = list(ACTIONS)
VARIANTS: dict[str, dict[str, Any]] = {
    "tokens of one tower": {},
    "fused": {"vision": [timm_tower("test_vit2"), timm_tower()], "projector": {"kind": "fusedMlp"}},
    "in sequence": {
        "vision": [timm_tower("test_vit2"), timm_tower()],
        "fuse": "sequence",
        "projector": {"kind": "linear"},
    },
    "key points": {"vision": [map_tower()], "projector": {"kind": "spatialSoftArgmax", "points": 6}},
    "tied": {"language": {"config": {**LLAMA, "tie_word_embeddings": True}, "tokenizer": "bytes", "spare_tokens": 16}},
    "gpt2": {
        "language": {
            "config": {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 320},
            "tokenizer": "bytes",
            "spare_tokens": 16,
        }
    },
}

# Joint attention is not for every trunk.
BUILDABLE = [
    (decoder, variant) for decoder in DECODERS for variant in VARIANTS if (decoder, variant) != ("joint", "gpt2")
]


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_configuration_survives_json(decoder: str) -> None:
    of = config(decoder, dtypes={"vision": "fp32", "language": "bf16"}, prompt='say "{instruction}" — ünï\n')
    assert VLAConfig.from_json(of.to_json()) == of
    assert VLAConfig.from_dict(json.loads(json.dumps(of.to_dict()))) == of
    assert VLAConfig.from_json(of.to_json()).to_json() == of.to_json()
    assert of.self_contained() == of
    with pytest.raises(TypeError, match="banana"):
        VLAConfig.from_dict({**of.to_dict(), "banana": 1})


def test_wrong_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="Unknown decoder 'diffusion'"):
        config(action={"decoder": "diffusion", "chunk": 2})
    with pytest.raises(ValueError, match="does not hold"):
        config(prompt="do it")


@pytest.mark.parametrize(("decoder", "variant"), BUILDABLE)
def test_on_the_meta_device_it_has_the_same_names_and_shapes_and_real_buffers(decoder: str, variant: str) -> None:
    of = config(decoder, **VARIANTS[variant])
    with torch.device("meta"):
        meta = ComposedVLA(of)
    real = ComposedVLA(of)
    assert all(parameter.is_meta for parameter in meta.parameters())
    buffers = dict(real.named_buffers())
    assert set(buffers) == {name for name, _ in meta.named_buffers()}
    for name, buffer in meta.named_buffers():
        assert torch.equal(buffer, buffers[name]), name
    shapes = [{name: tensor.shape for name, tensor in model.state_dict().items()} for model in (meta, real)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(("decoder", "variant"), BUILDABLE)
def test_every_parameter_but_the_dead_ones_gets_a_gradient(decoder: str, variant: str) -> None:
    of = config(decoder, **VARIANTS[variant])
    model = build(of)
    model(batch(of)).sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert without == set(model.dead_parameters())


@pytest.mark.parametrize("decoder", DECODERS)
def test_names_are_the_contracts(decoder: str) -> None:
    model = build(config(decoder))
    names = list(model.state_dict())
    children = {name.split(".")[0] for name in names}
    expected = {"vision_backbone", "projector", "state_projector", "language_model", "action_head"}
    without = {"tokens": {"action_head"}, "joint": {"state_projector"}}
    assert children == expected - without.get(decoder, set())
    assert ("language_model.lm_head.weight" in names) == (decoder == "tokens")
    assert "language_model.model.layers.1.self_attn.q_proj.weight" in names
    assert "vision_backbone.featurizer.blocks.0.attn.qkv.weight" in names
    assert ("action_head.queries" in names) == (decoder == "regression")
    assert sum(len(partition(model).names(module)) for module in partition(model).modules) == len(
        list(model.named_parameters())
    )


def test_layer_scale_has_openvlas_name() -> None:
    names = list(build(config(vision=[timm_tower("test_vit2")])).state_dict())
    assert "vision_backbone.featurizer.blocks.0.ls1.scale_factor" in names
    assert not any(name.endswith("gamma") for name in names)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_same_twice(decoder: str) -> None:
    of = config(decoder)
    model, samples = build(of), batch(of)
    results = []
    for _ in range(2):
        model.zero_grad()
        losses = model(samples)
        losses.sum().backward()
        results.append(
            [
                losses.detach(),
                model.predict(samples),
                *(p.grad.clone() for p in model.parameters() if p.grad is not None),
            ]
        )
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_sum_over_micro_batches_is_the_sum_over_the_batch(decoder: str) -> None:
    of = config(decoder)
    model, samples = build(of), batch(of)
    parts = [samples.map(lambda tensor, i=i: tensor[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(sum(model(part).sum() for part in parts), model(samples).sum(), rtol=1e-12, atol=0)
    assert sum(int(model.valid_count(part)) for part in parts) == int(model.valid_count(samples))


@pytest.mark.parametrize("decoder", DECODERS)
def test_each_child_computes_in_its_own_dtype(decoder: str) -> None:
    """As under FSDP2: the parameters in the compute dtype, activations cast at the borders, losses in fp32."""
    of = config(decoder, vision=[map_tower()], projector={"kind": "spatialSoftArgmax", "points": 6})
    model = build(of, torch.float32)
    dtypes = {"vision_backbone": torch.float32, "projector": torch.float64, "language_model": torch.bfloat16}
    seen: dict[str, set[torch.dtype]] = {}
    for name, child in model.named_children():
        dtype = dtypes.get(name, torch.float32)
        child.to(dtype)
        child.compute_dtype = dtype  # type: ignore[assignment]
        child.register_forward_hook(
            lambda _m, _a, output, name=name: seen.setdefault(name, set()).update(t.dtype for t in tree_leaves(output))
        )
    model.reset_buffers()
    losses = model(batch(of, dtype=torch.float32))
    losses.sum().backward()
    assert losses.dtype == torch.float32
    for name, child in model.named_children():
        assert seen[name] == {dtypes.get(name, torch.float32)}
        assert all(p.grad is None or p.grad.dtype == p.dtype for p in child.parameters())
    assert model.predict(batch(of, dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("decoder", [decoder for decoder in DECODERS if decoder != "tokens"])
def test_a_head_that_is_recomputed_as_a_whole_is_still_itself(decoder: str) -> None:
    of = config(decoder)
    model, samples = build(of), batch(of)
    losses, actions = model(samples), model.predict(samples)
    wrapped: Any = checkpoint_wrapper(cast(nn.Module, model.action_head))
    model.action_head = wrapped
    assert torch.equal(model(samples), losses) and torch.equal(model.predict(samples), actions)


def test_bf16_is_close_to_fp64() -> None:
    for decoder in ("regression", "flowMatching", "joint"):
        of = config(decoder)
        exact = build(of)
        coarse = build(of).to(torch.bfloat16)
        coarse.reset_buffers()
        want = exact(batch(of)).sum()
        assert abs(coarse(batch(of)).double().sum() - want) < 0.03 * want


def test_reset_buffers_mends_what_to_empty_and_casts_break() -> None:
    of = config(vision=[timm_tower(), timm_tower("test_vit2")])
    model = build(of)
    before = {name: buffer.clone() for name, buffer in ComposedVLA(of).named_buffers()}
    for buffer in model.buffers():
        buffer.fill_(7)
    model.to(torch.bfloat16)
    model.reset_buffers()
    assert {name for name, _ in model.named_buffers()} == set(before)
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name
