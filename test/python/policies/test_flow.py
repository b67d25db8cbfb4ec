"""Losses of pi0, pi0.5, SmolVLA and X-VLA against LeRobot's own forward, and what must not depend on how a batch is split."""

from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch
from joint_twins import BATCH, Case, build, plain_elements, samples, spec
from lerobot.policies.xvla.action_hub import build_action_space
from torch import Tensor
from vla_runtime.errors import UserError
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.losses import losses_of
from vla_runtime.policies.losses_flow import stratified_times
from vla_runtime.policies.training import prepare


def sums(policy: Any, batch: PolicyBatch) -> Tensor:
    with torch.no_grad():
        return policy(batch)


def prepared(kind: str, **options: Any) -> Any:
    policy = build(kind, **options)
    prepare(policy, spec(kind))
    return policy


def cut(batch: PolicyBatch, rows: list[int]) -> PolicyBatch:
    tensors = {name: value[rows] for name, value in batch.tensors.items()}
    return replace(batch, tensors=tensors, valid=batch.valid[rows], positions=[batch.positions[row] for row in rows])


@pytest.mark.parametrize("kind", ["pi0", "pi05", "smolvla"])
def test_without_padding_it_is_lerobots_own_loss(kind: str) -> None:
    batch = samples(Case(kind, ragged=False), 0, list(range(4)))  # pyright: ignore[reportArgumentType]
    plain, ours = build(kind), prepared(kind)
    with batch.draws(), torch.no_grad():
        loss, _ = plain.forward(dict(batch.tensors))
    assert float(sums(ours, batch) / ours.valid_count(batch)) == pytest.approx(float(loss), rel=1e-6)
    assert int(ours.valid_count(batch)) == 4 * tiny.CHUNK * tiny.ACTION


def test_smolvla_masks_padding_as_lerobot_does() -> None:
    batch = samples(Case("smolvla"), 0, list(range(4)))
    plain, ours = build("smolvla"), prepared("smolvla")
    with batch.draws(), torch.no_grad():
        loss, _ = plain.forward(dict(batch.tensors))
    assert float(sums(ours, batch) / ours.valid_count(batch)) == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_padded_actions_count_only_where_declared(kind: str) -> None:
    batch = samples(Case(kind), 0, list(range(4)))  # pyright: ignore[reportArgumentType]
    policy = prepared(kind)
    elements = plain_elements(build(kind), batch).detach()
    counted = replace(batch, valid=torch.ones_like(batch.valid))
    per_action = tiny.ACTION if kind == "xvla" else 1  # X-VLA's terms are means over the width already
    for one in (batch, counted):
        expected = float((elements * one.valid[..., None]).sum()) / per_action
        assert float(sums(policy, one)) == pytest.approx(expected, rel=1e-5)
        assert int(policy.valid_count(one)) == int(one.valid.sum()) * tiny.ACTION // per_action
    assert not batch.valid.all()


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_sums_do_not_depend_on_the_split(kind: str) -> None:
    batch = samples(Case(kind), 3, list(range(BATCH)))  # pyright: ignore[reportArgumentType]
    policy = prepared(kind)
    parts = sum(float(sums(policy, cut(batch, rows))) for rows in ([4, 1, 6], [0, 2], [3, 5, 7]))
    assert parts == pytest.approx(float(sums(policy, batch)), rel=1e-5)


@pytest.mark.parametrize("kind", tiny.TYPES)
def test_a_batch_with_nothing_valid_has_a_loss_and_gradients_of_zero(kind: str) -> None:
    batch = samples(Case(kind), 0, [0, 1])  # pyright: ignore[reportArgumentType]
    batch = replace(batch, valid=torch.zeros_like(batch.valid))
    policy = prepared(kind)
    loss = policy(batch)
    loss.sum().backward()
    assert float(loss) == 0 and int(policy.valid_count(batch)) == 0
    gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    assert gradients and not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("kind", ["pi0", "pi05", "smolvla"])
def test_a_batch_is_left_as_it_was(kind: str) -> None:
    batch = samples(Case(kind), 0, [0, 1])  # pyright: ignore[reportArgumentType]
    before = {name: value.clone() for name, value in batch.tensors.items()}
    sums(prepared(kind), batch)
    assert all(torch.equal(value, before[name]) for name, value in batch.tensors.items())


# X-VLA's times


def test_times_are_spread_over_the_global_batch() -> None:
    """Each twentieth of [0, 1) gets its share of 400 positions, whichever they start with, and ranks do not share times."""
    for update in range(5):
        for first in (0, 137):
            times = stratified_times(7, update, list(range(first, first + 400)))
            counts = torch.histc(times.float(), bins=20, min=0.0, max=1.0)
            assert counts.min() >= 18 and counts.max() <= 22
            assert len(set(times.tolist())) == 400
    assert not torch.equal(stratified_times(7, 0, [0, 1]), stratified_times(7, 1, [0, 1]))
    assert not torch.equal(stratified_times(7, 0, [0, 1]), stratified_times(8, 0, [0, 1]))


def test_xvla_sees_the_times_that_were_given() -> None:
    batch = samples(Case("xvla"), 0, [3, 5, 0])
    policy = prepared("xvla")
    heard: list[Tensor] = []
    policy.model.transformer.register_forward_pre_hook(lambda _m, _i, named: heard.append(named["t"]), with_kwargs=True)
    sums(policy, batch)
    assert torch.equal(heard[0], stratified_times(batch.seed, 0, [3, 5, 0]).float())


def test_another_way_of_drawing_times_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = prepared("xvla")
    original = type(policy.model).forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        torch.rand(1).sqrt()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(type(policy.model), "forward", forward)
    with pytest.raises(UserError, match="draws its times otherwise"):
        sums(policy, samples(Case("xvla"), 0, [0, 1]))


def test_dropped_paths_of_images_are_a_matter_of_the_rank() -> None:
    config = tiny.config("xvla", tiny.Path("unused")).florence_config
    config["vision_config"]["drop_path_rate"] = 0.5
    policy = prepared("xvla", florence_config=config)
    batch = samples(Case("xvla"), 0, [0, 1, 2])
    torch.manual_seed(0)
    first = sums(policy, batch)
    assert not torch.equal(first, sums(policy, batch))
    torch.manual_seed(0)
    assert torch.equal(first, sums(policy, batch))


def test_layers_skipped_at_random_are_refused() -> None:
    config = tiny.config("xvla", tiny.Path("unused")).florence_config
    config["text_config"]["encoder_layerdrop"] = 0.1
    with pytest.raises(UserError, match="encoder_layerdrop"):
        prepared("xvla", florence_config=config)


@pytest.mark.parametrize("mode", ["ee6d", "joint", "agibot_ee6d", "franka_joint7", "so101_bimanual", "auto"])
def test_every_term_of_every_action_space_is_a_mean_over_actions(mode: str) -> None:
    """Which is why valid actions alone may be handed to it, and why one count serves all of its terms."""
    space = build_action_space(mode, **({"real_dim": 5, "max_dim": 8} if mode == "auto" else {}))
    generator = torch.Generator().manual_seed(1)
    predicted = torch.randn(1, 7, space.dim_action, generator=generator, dtype=torch.float64)
    target = torch.rand(1, 7, space.dim_action, generator=generator, dtype=torch.float64)
    whole = space.compute_loss(predicted, target)
    rows = [space.compute_loss(predicted[:, i : i + 1], target[:, i : i + 1]) for i in range(7)]
    for name, value in whole.items():
        assert float(value) == pytest.approx(sum(float(row[name]) for row in rows) / 7, rel=1e-12)


def test_who_has_which_losses() -> None:
    assert [losses_of(kind).terms for kind in tiny.TYPES] == [("flow",), ("flow",), ("flow",), ("actions",)]
    config = tiny.config("pi0", tiny.Path("unused"))
    assert losses_of("pi0").noise_shape(config) == (tiny.CHUNK, 6)
    assert losses_of("xvla").noise_shape(config) is None
