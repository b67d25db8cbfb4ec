"""A small LeRobot dataset, written by LeRobot, and what else the samples of a run need."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vla_runtime.modeling.composed import VLAConfig

LENGTHS = [7, 5, 9, 6]
SIZE = 24


@dataclass
class FakeMesh:
    """What `Samples` asks of a device mesh; `lerobot_samples` needs no collective."""

    rank: int
    world: int

    def get_rank(self) -> int:
        return self.rank

    def size(self) -> int:
        return self.world


class FakeRun:
    """What `lerobot_samples` asks of a run."""

    device = torch.device("cpu")

    @contextlib.contextmanager
    def local_rank_first(self) -> Iterator[None]:
        yield


def write_dataset(
    root: Path, *, lengths: list[int] = LENGTHS, action_dim: int = 3, constant: bool = False, seed: int = 0
) -> Path:
    """Episodes of random pictures, states and actions; picture (episode, frame) has that number in its first two pixels."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset.create(
        repo_id="local/test",
        fps=10,
        root=root,
        use_videos=False,
        features={
            "observation.image": {"dtype": "image", "shape": (SIZE, SIZE, 3), "names": ["height", "width", "channels"]},
            "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
            "action": {"dtype": "float32", "shape": (action_dim,), "names": [f"joint_{i}" for i in range(action_dim)]},
        },
    )
    random = np.random.default_rng(seed)
    for episode, length in enumerate(lengths):
        for frame in range(length):
            image = random.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
            image[0, 0, 0], image[0, 1, 0] = episode, frame
            action = random.normal(size=action_dim).astype(np.float32)
            if constant:
                action[1] = 0.5
            state = np.array([episode, frame], dtype=np.float32)
            task = "open the drawer" if episode % 2 else "close it"
            dataset.add_frame({"observation.image": image, "observation.state": state, "action": action, "task": task})
        dataset.save_episode()
    dataset.finalize()
    return root


def make_config(**changes: Any) -> VLAConfig:
    """A model that is never built here: only what it wants of the data matters."""
    values: dict[str, Any] = {
        "cameras": ("front",),
        "vision": [{"source": "timm", "name": "convnext_atto", "image_size": 16, "output": "map", "layer": 0, "norm": "native",
                    "mean": [0.5] * 3, "std": [0.5] * 3, "options": {}}],
        "projector": {"kind": "spatialSoftArgmax", "points": 4},
        "language": {"config": {"model_type": "llama", "vocab_size": 300}, "tokenizer": "bytes", "spare_tokens": 0},
        "action": {"decoder": "flowMatching", "chunk": 4, "hidden": 8, "layers": 1, "heads": 1, "steps": 2},
        "state_dim": 2,
        "action_dim": 3,
        "prompt": "do {instruction}",
        "prompt_tokens": 24,
        "mask": "full",
    }  # fmt: skip
    return VLAConfig(**{**values, **changes})
