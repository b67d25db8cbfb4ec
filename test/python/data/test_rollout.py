"""Statistics of rollouts; the rollouts themselves run in the end-to-end test."""

import pytest
from vla_runtime.rollout import Outcome, summarise, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (Wilson's score without continuity correction).
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_summary() -> None:
    outcomes = [Outcome("reach-v3", seed, seed < 3, 50, 0.01 * seed) for seed in range(5)]
    summary = summarise(outcomes)
    assert (summary["successes"], summary["episodes"]) == (3, 5)
    assert summary["mean_final_distance_m"] == pytest.approx(0.02)
