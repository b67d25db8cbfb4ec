"""Who sees whom, and that padding is seen by none."""

from dataclasses import replace

import pytest
import torch
from small_models import ACTIONS, LLAMA, batch, build, config
from torch import Tensor
from vla_runtime.modeling.composed import ComposedVLA
from vla_runtime.modeling.language import LanguageModel, additive, language_config, positions, visible

DECODERS = list(ACTIONS)


def reference(valid: list[bool], prefix: int, kind: str) -> list[list[bool]]:
    """The masks by their definitions, element by element."""
    length = len(valid)
    rows = []
    for query in range(length):
        row = []
        for key in range(length):
            seen = {"causal": key <= query, "prefix": key < prefix or key <= query, "full": True}[kind]
            row.append(seen and valid[key])
        rows.append(row)
    return rows


@pytest.mark.parametrize("kind", ["causal", "prefix", "full"])
def test_masks_are_their_definitions(kind: str) -> None:
    valid = [True, True, True, False, False, True, True]
    assert visible(torch.tensor([valid]), 5, kind)[0].tolist() == reference(valid, 5, kind)


@pytest.mark.parametrize("kind", ["causal", "prefix", "full"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gradients_flow_exactly_where_the_mask_allows(kind: str, attention: str) -> None:
    torch.manual_seed(0)
    trunk = LanguageModel(language_config({"config": LLAMA}), head=False, attention=attention).double()
    valid = torch.tensor([[True, True, True, False, True, True]])
    mask = additive(visible(valid, 4, kind), torch.float64)
    tokens = torch.randn(1, 6, 32, dtype=torch.float64, requires_grad=True)
    hidden = trunk(mask=mask, position_ids=positions(valid), queries=tokens)
    for query in range(6):
        if not valid[0, query]:
            continue
        (gradient,) = torch.autograd.grad(hidden[0, query].sin().sum(), tokens, retain_graph=True)
        reached = gradient[0].abs().sum(-1) > 0
        # Through two layers the reach is the transitive closure; these masks are transitive over valid tokens.
        assert reached.tolist() == reference(valid[0].tolist(), 4, kind)[query]


def test_an_unknown_mask_or_attention_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown mask 'sideways'"):
        visible(torch.ones(1, 2, dtype=torch.bool), 1, "sideways")
    with pytest.raises(ValueError, match="sdpa or eager"):
        LanguageModel(language_config({"config": LLAMA}), head=False, attention="flash_attention_2")


def outputs(model: ComposedVLA, *, of_batch: object) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return model(of_batch), model.predict(of_batch)  # type: ignore[arg-type]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("state_dim", [3, 0])
def test_what_stands_at_padding_changes_nothing(decoder: str, state_dim: int) -> None:
    of = config(decoder, state_dim=state_dim)
    model, samples = build(of), batch(of)
    losses, actions = outputs(model, of_batch=samples)
    other = samples.prompt.masked_fill(~samples.prompt_mask, 77)
    assert samples.actions is not None and samples.noise is not None and samples.valid is not None
    outside = ~samples.valid.unsqueeze(-1)
    changed = replace(samples, prompt=other, actions=torch.where(outside, 0.123, samples.actions))
    assert torch.equal(outputs(model, of_batch=changed)[1], actions)
    if decoder in (
        "flowMatching",
        "joint",
    ):  # noise of padded actions may not reach others; at inference there is no padding
        changed = replace(changed, noise=torch.where(outside, 5.0, samples.noise))
    assert torch.equal(outputs(model, of_batch=changed)[0], losses)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("state_dim", [3, 0])
def test_a_longer_padding_changes_nothing(decoder: str, state_dim: int) -> None:
    of = config(decoder, state_dim=state_dim)
    model = build(of)
    for short, long in zip(
        outputs(model, of_batch=batch(of)), outputs(model, of_batch=batch(of, length=33)), strict=True
    ):
        torch.testing.assert_close(long, short, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decoder", DECODERS)
def test_losses_are_zero_where_padded_and_counted_where_not(decoder: str) -> None:
    of = config(decoder)
    model, samples = build(of), batch(of)
    losses = model(samples)
    assert losses.shape == ((3, 2 * 4 + 1) if decoder == "tokens" else (3, 3, 4))
    assert int(model.valid_count(samples)) == int((losses != 0).sum())
    assert not losses[1, 4:].any() if decoder == "tokens" else not losses[1, 1:].any()


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_sample_does_not_depend_on_its_neighbours(decoder: str) -> None:
    of = config(decoder)
    model, samples = build(of), batch(of)
    alone = samples.map(lambda tensor: tensor[1:2])
    torch.testing.assert_close(model(alone), model(samples)[1:2], rtol=0, atol=1e-12)
    torch.testing.assert_close(model.predict(alone), model.predict(samples)[1:2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", ["causal", "prefix"])
def test_action_tokens_do_not_see_their_successors(mask: str) -> None:
    of = config("tokens", mask=mask)
    model, samples = build(of), batch(of, size=1)
    assert samples.actions is not None
    changed = samples.actions.clone()
    changed[:, -1, -1] = -changed[:, -1, -1]
    before, after = model(samples), model(replace(samples, actions=changed))
    assert torch.equal(before[:, :-2], after[:, :-2])
    assert not torch.equal(before[:, -1:], after[:, -1:])


def test_tokens_under_a_full_mask_are_refused() -> None:
    with pytest.raises(ValueError, match="causal or prefix"):
        config("tokens", mask="full")


@pytest.mark.parametrize("mask", ["causal", "prefix", "full"])
def test_under_a_causal_mask_images_do_not_see_the_instruction(mask: str) -> None:
    of = config("flowMatching", mask=mask)
    model, samples = build(of), batch(of, size=1)
    with torch.no_grad():
        hidden = [
            model._trunk(changed, model._observe(changed))[0]
            for changed in (samples, replace(samples, prompt=torch.where(samples.prompt == 256, samples.prompt, 65)))
        ]
    images = slice(1, 1 + 2 * 4)
    assert torch.equal(hidden[0][:, images], hidden[1][:, images]) == (mask == "causal")
