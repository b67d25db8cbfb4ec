"""What a user or a machine does wrong: the message, the status, and that nothing is lost."""

import json
import os
import pickle
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Machine, Project, Result, Settings, assert_same
from vla_runtime.checkpoints import complete_checkpoints

Undisturbed = Callable[[Settings], Project]


@pytest.fixture
def stopped(undisturbed: Undisturbed, tmp_path: Path) -> Project:
    """A project whose run has complete checkpoints of steps 4 and 6."""
    done = undisturbed(Settings())
    project = Project(tmp_path / "project")
    shutil.copytree(done.run, project.run)
    return project


def refused(result: Result, *texts: str) -> None:
    """The launch ended with status 2, and one process said each of these."""
    assert result.status == 2, result.output
    assert "Traceback" not in result.output
    assert result.output.count("error: ") == 1, result.output
    for text in texts:
        assert result.output.count(text) == 1, f"{text!r} is not there once:\n{result.output}"


def test_truncated_checkpoint(stopped: Project) -> None:
    newest = complete_checkpoints(stopped.checkpoints)[0]
    shard = newest / "__1_0.distcp"
    size = shard.stat().st_size
    os.truncate(shard, size // 2)
    refused(
        stopped.launch(),
        "step-00000006 is damaged: ",
        f"__1_0.distcp has {size // 2} bytes, {size} were written.",
        "move the directory away: the run then resumes from the next older one",
    )
    shutil.move(newest, stopped.folder / "aside")
    resumed = stopped.launch()
    assert resumed.status == 0
    assert "resumed from runs/kill-test/checkpoints/step-00000004" in resumed.output


def test_missing_shard(stopped: Project) -> None:
    (complete_checkpoints(stopped.checkpoints)[0] / "__0_0.distcp").unlink()
    refused(stopped.launch(), "is damaged: __0_0.distcp is missing.")


@pytest.mark.parametrize("content", [b"not a pickle", pickle.dumps({"a": 1})], ids=["garbage", "another pickle"])
def test_unreadable_metadata(stopped: Project, content: bytes) -> None:
    newest = complete_checkpoints(stopped.checkpoints)[0]
    metadata = newest / ".metadata"
    metadata.write_bytes(content.ljust(metadata.stat().st_size, b"\0"))
    refused(stopped.launch(), "step-00000006 is damaged: .metadata cannot be read")


def test_unreadable_shard(stopped: Project) -> None:
    shard = complete_checkpoints(stopped.checkpoints)[0] / "__1_0.distcp"
    shard.write_bytes(b"\0" * shard.stat().st_size)
    refused(stopped.launch(), "step-00000006 is damaged: ")


def test_marker_of_another_program(stopped: Project) -> None:
    marker = complete_checkpoints(stopped.checkpoints)[0] / "COMPLETE"
    marker.write_text(json.dumps({"format": "other-3", "update": 6, "files": {}}))
    refused(stopped.launch(), "is not one of this run: its format is 'other-3'")
    marker.write_text("yes")
    refused(stopped.launch(), "is not one of this run: its COMPLETE marker cannot be read")


def test_checkpoint_of_another_model(stopped: Project) -> None:
    stopped.rebuild(width=24)
    refused(stopped.launch(), "modules.language.width: 16 in the checkpoint, 24 now (may not change)")
    refused(
        stopped.launch("--allow-change", "modules.language.width"),
        "is not one of this run: ",
        "action_head.weight has shape [6, 16], the model [6, 24]",
    )


def test_checkpoint_copied_under_another_name(stopped: Project) -> None:
    shutil.copytree(complete_checkpoints(stopped.checkpoints)[0], stopped.checkpoints / "step-00000009")
    refused(stopped.launch(), "step-00000009 is not one of this run: it holds the state after update 6.")


def test_other_number_of_processes_than_planned(project: Project) -> None:
    refused(project.launch(processes=3), "the plan says 2 processes, the launcher started 3.")
    assert not project.run.exists()


def test_port_in_use(project: Project) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = project.launch(machine=Machine(port=port))
    assert result.status == 2, result.output
    assert f"the port of 127.0.0.1:{port} is in use by another process. Choose another" in result.output
    assert "Traceback" not in result.output


def test_started_elsewhere(project: Project) -> None:
    (project.folder / "plan.json").unlink()
    refused(project.launch(), "plan.json is not in ", "Start train.py in its own folder.")


def test_no_plan(project: Project) -> None:
    (project.folder / "plan.json").write_text("{")
    refused(project.launch(), "plan.json is no plan; build the project again.")


def test_unknown_option(project: Project) -> None:
    result = project.launch("--alow-change", "x")
    assert result.status == 2
    assert "unrecognized arguments: --alow-change" in result.output


def test_file_size_limit_during_a_checkpoint(tmp_path: Path, undisturbed: Undisturbed) -> None:
    reference = undisturbed(Settings())
    project = Project(tmp_path / "project")
    # A checkpoint before the tower trains fits; one with the tower's optimizer state does not.
    sizes = {
        step: max(p.stat().st_size for p in (reference.checkpoints / f"step-{step:08d}").iterdir()) for step in (4, 6)
    }
    assert project.launch(stop=1).status == 143
    fits = max(p.stat().st_size for p in (project.checkpoints / "step-00000002").iterdir())
    assert fits < sizes[4]
    full = project.launch(machine=Machine(file_bytes=(fits + sizes[4]) // 2))
    refused(
        full,
        "could not be written: ",
        "The last complete one stands, and the next launch resumes from it: runs/kill-test/checkpoints/step-00000002.",
    )
    assert "File too large" in full.output
    assert [path.name for path in project.checkpoints.iterdir()] == ["step-00000002"]
    assert project.launch().status == 0
    assert project.curve() == reference.curve()
    assert_same(project.weights(), reference.weights())


def test_disk_full_during_a_checkpoint(tmp_path: Path, undisturbed: Undisturbed) -> None:
    reference = undisturbed(Settings(keep=10))
    one = sum(p.stat().st_size for p in (reference.checkpoints / "step-00000004").iterdir())
    project = Project(tmp_path / "project", Settings(keep=10))
    result = project.launch(machine=Machine(disk_bytes=2 * one + 100_000))
    if "PermissionError" in result.output:  # no namespaces here: the limit on a file's size stands for the disk
        test_file_size_limit_during_a_checkpoint(tmp_path / "limit", undisturbed)
        return
    refused(result, "could not be written: ", "The last complete one stands", "No space left on device")
    then = project.folder / "runs-then" / "kill-test"
    kept = [path.name for path in complete_checkpoints(then / "checkpoints")]
    assert kept and kept[-1] == "step-00000002"
    assert len(kept) == len(list((then / "checkpoints").iterdir()))  # the half-written one has given its room back
    shutil.copytree(project.folder / "runs-then", project.folder / "runs", dirs_exist_ok=True)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert project.curve() == reference.curve()
    assert_same(project.weights(), reference.weights())


def test_a_gradient_that_becomes_nan_skips_the_update_on_all_ranks(project: Project) -> None:
    result = project.launch(nan=[2, 4])
    assert result.status == 0, result.output
    assert "update 4 is skipped: not finite: rank 1: the gradient of language (nan) (2 of at most 10)." in result.output
    assert [line["skipped"] for line in project.curve()] == [0, 0, 1, 1, 2, 2]
    weights = project.weights()
    assert weights["optimizer.action_head.weight.step"].item() == 4
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_too_many_nans_stop_the_run_also_over_a_restart(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", Settings(skip_non_finite=1))
    assert project.launch(nan=[0], stop=1).status == 143
    result = project.launch(nan=[3])
    assert result.status == 2, result.output
    assert result.output.count("2 updates of this run were skipped for this, skipNonFinite allows 1.") == 1
    assert "Traceback" not in result.output
    assert "update 3: not finite: rank 1: the gradient of language (nan)." in result.output
    assert complete_checkpoints(project.checkpoints)[0].name == "step-00000002"


def test_a_failing_rank_is_reported_with_its_own_traceback(project: Project) -> None:
    result = project.torchrun(crash=2)
    assert result.status != 0
    ours = result.output.partition("torch/distributed/elastic")[0]
    assert ours.count("Traceback") == 1
    assert "rank 1 failed:\nTraceback" in ours
    root = result.output.partition("Root Cause")[2]
    assert "rank      : 1" in root
    assert "RuntimeError: the camera is on fire" in root
    for rank in (0, 1):
        assert "Traceback" in (project.run / "logs" / f"rank-{rank}.log").read_text()


def test_torchrun_shows_a_users_mistake_without_a_stack_trace(project: Project) -> None:
    result = project.torchrun(processes=3)
    assert result.output.count("error: the plan says 2 processes, the launcher started 3.") == 1
    root = result.output.partition("Root Cause")[2]
    assert "exitcode  : 2" in root
    assert "start_run" not in root
