"""The recorder's refusals; what it records is used by the end-to-end test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NO_RENDERER = "import ctypes.util, runpy, sys; ctypes.util.find_library = lambda name: None; sys.argv = ['record.py', *sys.argv[1:]]; runpy.run_path('record.py', run_name='__main__')"


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """record.py beside simulation.py, as a scaffolded project has them."""
    shutil.copy(ROOT / "examples/quickstart/record.py", tmp_path)
    shutil.copy(ROOT / "templates/runtime/vla_runtime/simulation.py", tmp_path)
    return tmp_path


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_without_a_renderer(recorder: Path) -> None:
    result = call(recorder, "-c", NO_RENDERER, "--out", "data/new")
    assert result.returncode == 2
    assert "no software renderer: neither libEGL nor libOSMesa was found" in result.stderr
    assert "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (recorder / "data").exists()


def test_never_replaces_a_folder_that_it_did_not_write(recorder: Path) -> None:
    (recorder / "data").mkdir()
    (recorder / "data" / "mine.txt").write_text("precious")
    result = call(recorder, "record.py", "--out", "data", "--overwrite")
    assert result.returncode == 2
    assert "data exists and was not recorded with these arguments; choose another --out" in result.stderr
    assert (recorder / "data" / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "reach-v3=none"], "the number of episodes must be a positive integer"),
        (["--episodes", "0"], "must be at least 1"),
        (["--task", "reach-v4"], "MetaWorld has no task 'reach-v4'; it has"),
    ],
)
def test_bad_arguments(recorder: Path, arguments: list[str], message: str) -> None:
    result = call(recorder, "record.py", "--out", "data/new", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
