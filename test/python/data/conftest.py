"""A small dataset, and the samples of a run over it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataset_fixture import FakeMesh, FakeRun, make_config, write_dataset
from vla_runtime.data import Dataset, Samples, lerobot_samples


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes of 7, 5, 9 and 6 frames."""
    return write_dataset(tmp_path_factory.mktemp("data") / "dataset")


@pytest.fixture
def samples(dataset: Path) -> Callable[..., Samples]:
    """`samples(rank, world, micro)`: the samples of one rank, global batch 12."""

    def make(rank: int = 0, world: int = 1, micro: int = 12, **changes: Any) -> Samples:
        spec = Dataset("one", {"front": "observation.image"}, "observation.state", "action", root=str(dataset))
        options: dict[str, Any] = {
            "config": make_config(),
            "run": FakeRun(),
            "mesh": FakeMesh(rank, world),
            "normalize_state": "meanStd",
            "normalize_action": "minMax",
            "constant": "refuse",
            "action_mask": None,
            "clip": False,
            "global_batch": 12,
            "micro_batch": micro,
            "seed": 3,
        }
        return lerobot_samples(changes.pop("datasets", [spec]), **{**options, **changes})

    return make
