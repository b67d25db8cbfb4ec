"""The same with the real rooms: LeRobot data with augmentation, a composed VLA with flow matching, LoRA with dropout, recompute, bf16."""

import shutil
import signal
import sys
from pathlib import Path

import pytest
from harness import HERE, Project, assert_same
from vla_runtime.checkpoints import complete_checkpoints

sys.path.insert(0, str(HERE.parent / "data"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes, written by LeRobot."""
    from dataset_fixture import write_dataset  # pyright: ignore[reportMissingImports] - in ../data

    return write_dataset(tmp_path_factory.mktemp("real") / "dataset")


def real_project(folder: Path, dataset: Path) -> Project:
    project = Project(folder, overlays=("real",))
    shutil.copytree(dataset, folder / "dataset")
    return project


@pytest.fixture(scope="module")
def whole(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run to its end without a break."""
    project = real_project(tmp_path_factory.mktemp("whole") / "project", dataset)
    result = project.launch()
    assert result.status == 0, result.output
    return project


@pytest.mark.parametrize(("point", "who", "nth"), [("after marker", "launcher", 1), ("shards written", "rank1", 2)])
def test_a_real_run_resumes_bit_for_bit(
    tmp_path: Path, dataset: Path, whole: Project, point: str, who: str, nth: int
) -> None:
    project = real_project(tmp_path / "project", dataset)
    assert project.launch(kill={"point": point, "who": who, "nth": nth}).status != 0
    assert (project.folder / "killed").exists()
    project.await_end(30)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert project.curve() == whole.curve()
    assert "held_out" in project.curve()[-1]
    assert_same(project.weights(), whole.weights())


def test_a_signal_leaves_the_loader_workers_alone(tmp_path: Path, dataset: Path, whole: Project) -> None:
    project = real_project(tmp_path / "project", dataset)
    project.rebuild(workers=1)
    launch = project.start_torchrun(slow=2)
    launch.await_output("update 1/5")
    launch.signal(signal.SIGTERM)
    stopped = launch.wait()
    assert "SIGTERM: stopped after " in stopped.output, stopped.output
    assert not stopped.output.count("failed"), stopped.output
    assert complete_checkpoints(project.checkpoints)
    project.await_end(30)
    project.rebuild(workers=0)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert project.curve() == whole.curve()
    assert_same(project.weights(), whole.weights())


def test_truncated_parquet_is_found_before_anything_is_allocated(tmp_path: Path, dataset: Path) -> None:
    project = real_project(tmp_path / "project", dataset)
    (file,) = (project.folder / "dataset" / "data").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    refused = project.launch()
    assert refused.status == 2, refused.output
    assert refused.output.count("file-000.parquet is cut off, or the recording was not finalised") == 1
    assert not complete_checkpoints(project.checkpoints)
