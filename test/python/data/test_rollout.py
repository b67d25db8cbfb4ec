"""Statistics of rollouts; the rollouts themselves run in the end-to-end test."""

from pathlib import Path

import pytest
from vla_runtime.errors import UserError
from vla_runtime.rollout import Arguments, Outcome, evaluate, summarise, wilson_interval


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


def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    arguments = Arguments(package=tmp_path / "nothing", out=tmp_path / "out", ablate="none", episodes=1, processes=1)
    with pytest.raises(UserError, match=r"nothing is no package: neither config.json nor policy"):
        evaluate(
            arguments,
            tasks=["reach-v3"],
            episodes=1,
            first_seed=0,
            max_steps=1,
            image_size=32,
            action_steps=1,
            camera="front",
            dataset_root=None,
            image_feature="observation.image",
        )
