"""A LeRobot policy (ACT with its dropout and latent noise, a freeze schedule, recompute) that is killed goes on bit for bit."""

import shutil
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

    return write_dataset(tmp_path_factory.mktemp("policy") / "dataset")


def policy_project(folder: Path, dataset: Path) -> Project:
    project = Project(folder, overlays=("real", "policy"))
    shutil.copytree(dataset, folder / "dataset")
    for name in ("small_specs.py", "tiny.py", "small_pi.py"):
        shutil.copy(HERE.parent / "policies" / name, folder)
    return project


@pytest.fixture(scope="module")
def whole(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run to its end without a break."""
    project = policy_project(tmp_path_factory.mktemp("whole") / "project", dataset)
    result = project.launch()
    assert result.status == 0, result.output
    return project


@pytest.mark.parametrize(
    ("point", "who", "nth"),
    [
        ("after marker", "launcher", 1),
        ("shards written", "rank1", 2),
        pytest.param("between updates", "rank0", 4, marks=pytest.mark.full),
    ],
)
def test_a_policy_run_resumes_bit_for_bit(
    tmp_path: Path, dataset: Path, whole: Project, point: str, who: str, nth: int
) -> None:
    project = policy_project(tmp_path / "project", dataset)
    killed = project.launch(kill={"point": point, "who": who, "nth": nth})
    assert killed.status != 0 and (project.folder / "killed").exists(), killed.output
    project.await_end(30)
    newest = complete_checkpoints(project.checkpoints)
    resumed = project.launch()
    assert resumed.status == 0, resumed.output
    assert ("resumed from" in resumed.output) == bool(newest), resumed.output
    assert project.curve() == whole.curve()
    assert_same(project.weights(), whole.weights())
