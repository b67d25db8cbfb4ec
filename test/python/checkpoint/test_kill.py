"""Whoever is killed, wherever: after a restart the loss curve and everything in the last checkpoint are those of an undisturbed run."""

import os
import random
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from harness import Project, Settings, assert_same
from vla_runtime.checkpoints import complete_checkpoints
from vla_runtime.points import POINTS

WHO = ("rank0", "rank1", "all", "launcher")
NTH = (1, 2)  # the point's first time (no complete checkpoint yet), and its second
ONCE = {"preflight", "pruning"}  # points that a launch of six updates passes once
GRID = [case for case in product(POINTS, WHO, NTH) if case[0] not in ONCE or case[2] == 1]

SEED = os.environ.get("VLA_TEST_SEED", "1")
_draw = random.Random(SEED)
EACH_POINT_ONCE = [_draw.choice([case for case in GRID if case[0] == point]) for point in POINTS]
DRAWN = EACH_POINT_ONCE + _draw.sample([case for case in GRID if case not in EACH_POINT_ONCE], 4)


def kill_and_resume(project: Project, reference: Project, point: str, who: str, nth: int) -> None:
    """One case of the grid."""
    killed = project.launch(kill={"point": point, "who": who, "nth": nth})
    assert (project.folder / "killed").exists(), f"the point was not reached:\n{killed.output}"
    assert killed.status != 0, killed.output
    project.await_end(5)  # nobody outlives the launcher
    files = project.files()
    time.sleep(0.3)
    assert project.files() == files, "something was written after the launch had ended"

    newest = complete_checkpoints(project.checkpoints)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    if newest:
        assert f"resumed from {newest[0].relative_to(project.folder)}:" in resumed.output
    else:
        assert "resumed from" not in resumed.output
    assert project.curve() == reference.curve()
    assert_same(project.weights(), reference.weights())
    names = {path.name for path in project.checkpoints.iterdir()}
    assert names == {"step-00000004", "step-00000006"}


@pytest.mark.parametrize(("point", "who", "nth"), DRAWN)
def test_a_killed_run_resumes_bit_for_bit(
    project: Project, undisturbed: Callable[[Settings], Project], point: str, who: str, nth: int
) -> None:
    kill_and_resume(project, undisturbed(Settings()), point, who, nth)


@pytest.mark.full
@pytest.mark.parametrize(("point", "who", "nth"), [case for case in GRID if case not in DRAWN])
def test_a_killed_run_resumes_bit_for_bit_at_every_point(
    project: Project, undisturbed: Callable[[Settings], Project], point: str, who: str, nth: int
) -> None:
    kill_and_resume(project, undisturbed(Settings()), point, who, nth)


def test_killed_again_and_again(project: Project, undisturbed: Callable[[Settings], Project]) -> None:
    for point, who in (("after marker", "launcher"), ("shards written", "rank1"), ("between updates", "all")):
        assert project.launch(kill={"point": point, "who": who, "nth": 1}).status != 0
        project.await_end(5)
    assert project.launch().status == 0
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_workers_die_with_a_killed_torchrun(project: Project, undisturbed: Callable[[Settings], Project]) -> None:
    killed = project.torchrun(kill={"point": "staged", "who": "launcher", "nth": 2})
    assert killed.status == -9, killed.output
    project.await_end(5)
    files = project.files()
    time.sleep(0.3)
    assert project.files() == files
    resumed = project.torchrun()
    assert resumed.status == 0, resumed.output
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_what_is_half_written_is_cleared_away_and_what_is_foreign_is_kept(
    project: Project, undisturbed: Callable[[Settings], Project]
) -> None:
    assert project.launch(stop=3).status == 143
    half = project.checkpoints / "step-00000006.partial"
    half.mkdir()
    (half / "__0_0.distcp").write_bytes(b"half")
    unmarked = project.checkpoints / "step-00000005"
    unmarked.mkdir()
    (unmarked / "mine.txt").write_text("keep me")
    result = project.launch()
    assert result.status == 0, result.output
    assert "has no COMPLETE marker" in result.output
    kept = [path for path in project.checkpoints.glob("step-00000005.incomplete-*")]
    assert [path.joinpath("mine.txt").read_text() for path in kept] == ["keep me"]
    assert not half.exists()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_a_second_launch_on_the_same_directory_is_refused(
    project: Project, undisturbed: Callable[[Settings], Project]
) -> None:
    first = project.start(hold=1)
    first.await_output("preflight: nothing found")
    second = project.launch()
    assert second.status == 2, second.output
    assert second.output.count("is in use by another launch (processes ") == 1
    assert "Traceback" not in second.output
    (project.folder / "go").touch()
    assert first.wait().status == 0
    assert project.curve() == undisturbed(Settings()).curve()
    assert_same(project.weights(), undisturbed(Settings()).weights())


def test_a_writer_that_is_slower_than_the_training_saves_what_was_there(
    tmp_path: Path, undisturbed: Callable[[Settings], Project]
) -> None:
    reference = undisturbed(Settings(keep=10))
    slow = Project(tmp_path / "slow", Settings(keep=10))
    assert slow.launch(slow_writer=0.7).status == 0
    for step in (2, 4, 6):
        assert_same(slow.weights(step), reference.weights(step))

    mutant = Project(tmp_path / "mutant", Settings(keep=10))
    assert mutant.launch(slow_writer=0.7, no_copy=True).status == 0
    with pytest.raises(AssertionError, match="differs by"):
        assert_same(mutant.weights(2), reference.weights(2))
