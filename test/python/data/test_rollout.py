"""Statistics of rollouts; the rollouts themselves run in the end-to-end test."""

import json
from pathlib import Path

import pytest
from vla_runtime.errors import UserError
from vla_runtime.rollout import (
    Arguments,
    Outcome,
    Recording,
    _opened,
    dataset_of,
    evaluate,
    summarise,
    wilson_interval,
)


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
            datasets=[Recording("one", root=None, image_feature="observation.image")],
        )


def recording(folder: Path, name: str, *tasks: str) -> Recording:
    """A dataset whose recording says these tasks."""
    (folder / name / "meta").mkdir(parents=True)
    episodes = [{"task": task, "seed": 0, "length": 3} for task in tasks]
    (folder / name / "meta" / "recording.json").write_text(json.dumps({"episodes": episodes}))
    return Recording(name, str(folder / name), "observation.image")


def test_a_task_uses_the_dataset_that_recorded_it(tmp_path: Path) -> None:
    left = recording(tmp_path, "left", "reach-v3", "push-v3")
    right = recording(tmp_path, "right", "drawer-open-v3", "push-v3")
    assert dataset_of("reach-v3", [left, right], None) is left
    assert dataset_of("drawer-open-v3", [left, right], None) is right
    assert dataset_of("push-v3", [left, right], "right") is right
    assert dataset_of("door-open-v3", [left], None) is left  # there is no other
    for task, chosen, message in (
        ("push-v3", None, "trained on left, right.*several of them recorded this task.*--dataset"),
        ("door-open-v3", None, "trained on left, right.*none of them says that it recorded this task.*--dataset"),
        ("reach-v3", "middle", "--dataset middle: the run has left, right"),
    ):
        with pytest.raises(UserError, match=message):
            dataset_of(task, [left, right], chosen)


def test_of_several_policy_directories_the_tasks_own_is_opened(tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / "lerobot" / name).mkdir(parents=True)
        (tmp_path / "lerobot" / name / "policy_preprocessor.json").write_text("{}")
    assert _opened(tmp_path / "lerobot", "right", 2) == (tmp_path / "lerobot" / "right", None)
    # A directory that the user names himself, and a package that holds all statistics in one.
    assert _opened(tmp_path / "lerobot" / "left", "left", 2) == (tmp_path / "lerobot" / "left", "left")
    assert _opened(tmp_path / "hf", "right", 2) == (tmp_path / "hf", "right")
    assert _opened(tmp_path / "hf", "one", 1) == (tmp_path / "hf", None)
