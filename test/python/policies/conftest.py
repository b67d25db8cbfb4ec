"""Processes and a dataset for the tests of LeRobot's policies."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for folder in ("training", "data"):  # their pool of processes and their dataset
    sys.path.append(str(Path(__file__).parent.parent / folder))

sys.path.append(str(Path(__file__).parent / "plugins"))

from dataset_fixture import write_dataset  # noqa: E402
from pool import Pool  # noqa: E402


@pytest.fixture(scope="session")
def policy_pool() -> Iterator[Pool]:
    """Two gloo processes, started with the first task."""
    processes = Pool(2, preload="policy_twins")
    yield processes
    processes.close()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes of 7, 5, 9 and 6 frames."""
    return write_dataset(tmp_path_factory.mktemp("policies") / "dataset")
