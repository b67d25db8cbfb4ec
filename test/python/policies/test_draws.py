"""Draws belong to samples: not to ranks, micro-batches or devices."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from vla_runtime.errors import UserError
from vla_runtime.policies.draws import PerSampleDraws, sample_seed

Draw = Callable[[int], Tensor]
DRAWS: dict[str, Draw] = {
    "rand": lambda n: torch.rand(n, 3),
    "rand of a size": lambda n: torch.rand((n,)),
    "randn": lambda n: torch.randn(size=(n, 2), dtype=torch.float64),
    "randn of a Size": lambda n: torch.randn(torch.Size((n, 2)), device="cpu"),
    "randint": lambda n: torch.randint(0, 100, (n, 5)),
    "randint below": lambda n: torch.randint(100, (n, 5)),
    "randint by name": lambda n: torch.randint(low=3, high=100, size=(n,), device="cpu").long(),
    "rand_like": lambda n: torch.rand_like(torch.zeros(n, 2)),
    "randn_like": lambda n: torch.randn_like(torch.zeros(n, 2), dtype=torch.float64),
    "normal": lambda n: torch.normal(mean=0.5, std=2.0, size=(n, 3), dtype=torch.float32, device="cpu"),
    "normal of tensors": lambda n: torch.normal(torch.zeros(n, 3), torch.ones(3)),
    "bernoulli": lambda n: torch.bernoulli(torch.full((n, 20), 0.5)),
    "Beta": lambda n: torch.distributions.Beta(torch.tensor(1.5), torch.tensor(1.0)).sample((n,)),
    "Normal": lambda n: torch.distributions.Normal(torch.zeros(n, 2), 1.0).rsample(),
    "Gamma": lambda n: torch.distributions.Gamma(torch.full((n,), 2.0), 1.0).sample(),
    "normal_": lambda n: torch.empty(n, 3).normal_(1.0, 2.0),
    "uniform_": lambda n: torch.empty(n, 3).uniform_(2.0, 3.0),
    "exponential_": lambda n: torch.empty(n, 3).exponential_(),
    "bernoulli_": lambda n: torch.empty(n, 20).bernoulli_(0.3),
}


def drawn(draw: Draw, positions: list[int], update: int = 2, times: int = 2) -> Tensor:
    with PerSampleDraws(7, update, positions):
        return torch.stack([draw(len(positions)).double() for _ in range(times)], dim=1)


@pytest.mark.parametrize("name", DRAWS)
def test_a_sample_gets_the_same_in_every_batch(name: str) -> None:
    torch.manual_seed(0)
    whole = drawn(DRAWS[name], list(range(6)))
    torch.manual_seed(1)
    for positions in ([0, 1, 2], [4, 3], [5]):
        assert torch.equal(drawn(DRAWS[name], positions), whole[positions])


@pytest.mark.parametrize("name", DRAWS)
def test_samples_updates_and_draws_differ(name: str) -> None:
    whole = drawn(DRAWS[name], list(range(6)), times=8)
    assert len({tuple(row.flatten().tolist()) for row in whole}) == 6
    assert not torch.equal(whole, drawn(DRAWS[name], list(range(6)), update=3, times=8))
    assert not torch.equal(whole[:, 0], whole[:, 1])


def test_draws_are_what_they_are_called() -> None:
    positions = list(range(4000))
    with PerSampleDraws(0, 0, positions):
        normal, uniform, integers = torch.normal(3.0, 2.0, (4000,)), torch.rand(4000), torch.randint(2, 5, (4000,))
    assert abs(float(normal.mean()) - 3.0) < 0.15 and abs(float(normal.std()) - 2.0) < 0.1
    assert abs(float(uniform.mean()) - 0.5) < 0.03 and float(uniform.min()) >= 0 and float(uniform.max()) < 1
    assert sorted(set(integers.tolist())) == [2, 3, 4]


def test_a_seeded_row_is_what_torch_draws_for_it_alone() -> None:
    def ask(rows: int) -> Tensor:
        return torch.cat([torch.randn(rows, 3, 2).flatten(1), torch.rand(rows, 4), torch.randint(9, (rows, 2))], dim=1)

    with PerSampleDraws.seeded([5, 6]):
        together = ask(2)
    for row, seed in enumerate([5, 6]):
        torch.manual_seed(seed)
        assert torch.equal(together[row], ask(1)[0])


def test_torchs_own_generator_is_not_moved() -> None:
    torch.manual_seed(4)
    before = torch.get_rng_state()
    drawn(DRAWS["randn"], [0, 1])
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_flow_through_reparametrised_draws() -> None:
    mean = torch.zeros(3, 2, requires_grad=True)
    with PerSampleDraws(0, 0, [0, 1, 2]):
        torch.distributions.Normal(mean, 1.0).rsample().sum().backward()
    assert mean.grad is not None and torch.equal(mean.grad, torch.ones(3, 2))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(1),
        lambda: torch.randn(()),
        lambda: torch.randn(3, 2),
        lambda: torch.randint(0, 5, (1,)),
        lambda: torch.randperm(2),
        lambda: torch.multinomial(torch.ones(2, 3), 1),
        lambda: torch.rand(2, generator=torch.Generator()),
        lambda: functional.gumbel_softmax(torch.zeros(2, 3)),
    ],
)
def test_a_draw_without_a_row_per_sample_is_refused(draw: Callable[[], Tensor]) -> None:
    with pytest.raises(UserError, match="entry of its own"), PerSampleDraws(0, 0, [0, 1]):
        draw()


@pytest.mark.parametrize("draw", [lambda: np.random.rand(), lambda: random.random()])
def test_other_generators_are_noticed(draw: Callable[[], float]) -> None:
    with pytest.raises(UserError, match="Python's or NumPy's"), PerSampleDraws(0, 0, [0, 1]):
        draw()


def test_dropout_stays_a_matter_of_the_rank() -> None:
    torch.manual_seed(0)
    with PerSampleDraws(0, 0, [0, 1]):
        first = functional.dropout(torch.ones(2, 50))
    torch.manual_seed(0)
    assert torch.equal(first, functional.dropout(torch.ones(2, 50)))


def test_a_draw_inside_of_recompute_is_refused() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(UserError, match="recomputed block"), PerSampleDraws(0, 0, [0, 1]):
        checkpoint(lambda value: value * torch.randn_like(value), x, use_reentrant=False)


def test_seeds_depend_on_everything() -> None:
    seeds = {sample_seed(s, u, p) for s in range(4) for u in range(-1, 4) for p in range(4)}
    assert len(seeds) == 80 and all(0 <= seed < 2**63 for seed in seeds)
