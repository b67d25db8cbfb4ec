"""Joint attention of the composed VLA: who sees whom, what is handed on, what is computed and what is not."""

from typing import Any

import plain_joint
import pytest
import torch
from small_models import LLAMA, batch, build, config
from torch import Tensor, nn
from transformers import DynamicCache
from vla_runtime.modeling import joint
from vla_runtime.modeling.batch import Batch
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig
from vla_runtime.modeling.expert import JointExpert, suffix_visible
from vla_runtime.modeling.language import LanguageModel, additive, language_config, positions, visible


def family(kind: str) -> dict[str, Any]:
    """A small trunk with grouped heads, and biases where the family has them."""
    values = {**LLAMA, "model_type": kind, "num_key_value_heads": 2, "attention_bias": True}
    return {**values, "head_dim": 8} if kind in ("gemma", "gemma2", "qwen3") else values


def of_family(kind: str, **changes: Any) -> VLAConfig:
    """The small joint VLA on a trunk of a family; the trunk's own attention is eager, so that caps are caps."""
    language = {"config": family(kind), "tokenizer": "bytes", "spare_tokens": 0, "attention": "eager"}
    return config("joint", language=language, **changes)


def expert_of(model: ComposedVLA) -> JointExpert:
    assert isinstance(model.action_head, JointExpert)
    return model.action_head


# Against the definition


@pytest.mark.parametrize("state_dim", [3, 0])
def test_losses_are_those_of_both_streams_in_one_piece(state_dim: int) -> None:
    of = config("joint", state_dim=state_dim)
    model, samples = build(of), batch(of)
    assert samples.valid is not None
    expected = plain_joint.losses(model, samples) * samples.valid.unsqueeze(-1)
    torch.testing.assert_close(model(samples), expected, rtol=1e-9, atol=1e-12)
    wrong = plain_joint.losses(model, samples, prefix_sees_suffix=True) * samples.valid.unsqueeze(-1)
    assert not torch.allclose(model(samples), wrong, rtol=1e-6)


@pytest.mark.parametrize("state_dim", [3, 0])
def test_prediction_over_kept_keys_equals_the_whole_forward_at_every_step(state_dim: int) -> None:
    """The padding of the prompts differs from sample to sample; Euler's method by hand, both streams anew at each step."""
    of = config("joint", state_dim=state_dim)
    model, samples = build(of), batch(of)
    assert samples.noise is not None
    x, observation = samples.noise, Batch(samples.images, samples.prompt, samples.prompt_mask, samples.state)
    with torch.no_grad():
        for time in (1.0, 0.75, 0.5, 0.25):
            x = x - plain_joint.velocity(model, observation, x, torch.full((3,), time, dtype=torch.float64)) / 4
    torch.testing.assert_close(model.predict(samples), x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", joint.FAMILIES)
def test_an_expert_of_the_trunks_own_widths_and_weights_continues_the_trunk(kind: str) -> None:
    """Then both streams are one sequence through one ordinary model of transformers under pi0's mask."""
    of = of_family(
        kind, action={"decoder": "flowMatching", "attention": "joint", "chunk": 3, "hidden": 32, "mlp": 48, "steps": 2}
    )
    model, samples = build(of), batch(of)
    expert, trunk = expert_of(model), model.language_model
    whole = LanguageModel(language_config(of.language), head=False, attention="eager").double()
    whole.load_state_dict(trunk.state_dict())
    same = {name.removeprefix("model."): tensor for name, tensor in trunk.state_dict().items()}
    expert.transformer.load_state_dict({n: t for n, t in same.items() if not n.startswith("embed_tokens.")})

    seen: list[Tensor] = []
    expert.transformer.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    expert.transformer.norm.register_forward_hook(lambda _m, _i, output: seen.append(output))
    assert samples.valid is not None
    with torch.no_grad():
        model(samples)
        suffix, found = seen
        observed = model._observe(samples)
        valid, prefix = model._valid(samples, observed, 0)
        blocks = torch.zeros(3, prefix + 4, prefix + 4, dtype=torch.bool)
        blocks[:, :, :prefix] = valid[:, None]
        blocks[:, prefix:, prefix:] = suffix_visible(samples.valid, True)
        at = torch.cat([positions(valid), valid.sum(1, keepdim=True) + torch.arange(4)], dim=1)
        hidden = whole(mask=additive(blocks, torch.float64), position_ids=at, queries=suffix, **observed)
    assert isinstance(hidden, Tensor)
    # The norms of these families compute in fp32 whatever comes in.
    torch.testing.assert_close(found, hidden[:, prefix:], rtol=1e-6, atol=1e-6)
    assert hidden[:, prefix:].std() > 0.1


@pytest.mark.parametrize("kind", joint.FAMILIES)
def test_what_is_handed_on_is_what_transformers_would_cache(kind: str) -> None:
    torch.manual_seed(0)
    trunks = [
        LanguageModel(language_config({"config": family(kind)}), head=False, hands_on=hands_on).double()
        for hands_on in (False, True)
    ]
    trunks[1].load_state_dict(trunks[0].state_dict())
    valid = torch.tensor([[True, True, True, True, False], [True, True, True, True, True]])
    cache = DynamicCache()
    inputs: dict[str, Any] = {
        "mask": additive(visible(valid, 5, "prefix"), torch.float64),
        "position_ids": positions(valid),
        "queries": torch.randn(2, 5, 32, dtype=torch.float64),
    }
    with torch.no_grad():
        trunks[0](**inputs, cache=cache)
        handed = trunks[1](**inputs)
    assert isinstance(handed, list) and len(handed) == 2
    layers: list[Any] = list(cache.layers)
    for (key, value), layer in zip(handed, layers, strict=True):
        assert key.shape == (2, 2, 5, 8)
        assert torch.equal(key, layer.keys) and torch.equal(value, layer.values)


def test_the_expert_s_tokens_see_each_other_by_pi0_s_blocks() -> None:
    valid = torch.tensor([[True, True, False]])
    assert suffix_visible(valid, False)[0].int().tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    assert suffix_visible(valid, True)[0].int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]


# What is computed


def calls(module: nn.Module) -> list[str]:
    """Records each call of the module and of everything in it, by name."""
    seen: list[str] = []
    for name, child in module.named_modules():
        child.register_forward_hook(lambda *_, name=name: seen.append(name))
    return seen


def test_a_prediction_looks_once_and_denoises_the_suffix_alone() -> None:
    of = config("joint")
    model, samples = build(of), batch(of)
    vision, trunk, expert = calls(model.vision_backbone), calls(model.language_model), calls(expert_of(model))
    model.predict(samples)
    assert vision.count("") == trunk.count("") == trunk.count("model.layers.0") == 1
    assert expert.count("") == expert.count("transformer.layers.1") == 4


def test_behind_the_last_keys_nothing_of_the_trunk_is_computed() -> None:
    of = config("joint")
    model, samples = build(of), batch(of)
    trunk = calls(model.language_model)
    model(samples).sum().backward()
    called = {name for name in trunk if name.startswith("model.layers.1.") or name == "model.norm"}
    assert called == {
        f"model.layers.1.{part}"
        for part in ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    }


def freeze(model: nn.Module, *live: str) -> None:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(live))


def test_beside_a_frozen_trunk_nothing_of_it_is_kept_for_a_backward() -> None:
    of = config("joint")
    model, samples = build(of), batch(of)
    freeze(model, "action_head.")
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        context, _ = model._trunk(samples, model._observe(samples))
    assert not kept
    assert not any(tensor.requires_grad for pair in context for tensor in pair)
    model(samples).sum().backward()
    assert {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"action_head"}


def test_gradients_reach_as_deep_as_something_trains() -> None:
    of = config("joint")
    model, samples = build(of), batch(of)
    freeze(model, "action_head.", "language_model.model.layers.1.")
    context, _ = model._trunk(samples, model._observe(samples))
    assert [key.requires_grad for key, _ in context] == [False, True]
    freeze(model, "projector.")  # behind a trunk and an expert that do not train
    model(samples).sum().backward()
    assert {n.split(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"projector"}


def test_the_trunk_does_not_change_with_the_actions() -> None:
    of = config("joint")
    model, samples = build(of), batch(of)
    handed: list[Any] = []
    model.language_model.register_forward_hook(lambda _m, _i, output: handed.append(output))
    with torch.no_grad():
        model(samples)
        samples.actions, samples.noise, samples.state = (
            None if tensor is None else -tensor for tensor in (samples.actions, samples.noise, samples.state)
        )
        model(samples)
    before, after = handed
    assert all(
        torch.equal(a, b)
        for first, second in zip(before, after, strict=True)
        for a, b in zip(first, second, strict=True)
    )


# What is refused


def test_what_cannot_be_joined_is_refused() -> None:
    gpt2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 320}
    with pytest.raises(ValueError, match=r"type 'gpt2': use one of gemma, .*qwen3, or attention: 'cross'"):
        ComposedVLA(config("joint", language={"config": gpt2, "tokenizer": "bytes", "spare_tokens": 0}))
    action = {"decoder": "flowMatching", "chunk": 3, "hidden": 25, "mlp": 40, "steps": 2}
    with pytest.raises(ValueError, match="hidden 25 must be even"):
        ComposedVLA(config("joint", action={**action, "attention": "joint"}))
    with pytest.raises(ValueError, match="Unknown attention 'both' of the action decoder: use cross or joint"):
        config("joint", action={**action, "attention": "both"})
    model = build(config("joint"))
    point, time, valid = torch.zeros(1, 3, 4).double(), torch.ones(1).double(), torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="there is no state"):
        expert_of(model)(point, time, None, [], valid, valid)
