"""Small checkpoints that openpi wrote, and what they become."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from vla_convert import verify as verification
from vla_convert.answers import Request
from vla_convert.convert import convert

FIXTURES = Path(__file__).parent / "fixtures" / "openpi-tiny"
FAMILIES = ("pi0", "pi05")
CAMERA_MAP = {
    "base_0_rgb": "observation.images.top",
    "left_wrist_0_rgb": "observation.images.left",
    "right_wrist_0_rgb": "observation.images.right",
}
LENGTH = {"pi0": 48, "pi05": 200}


def request_for(family: str, source: Path, target: Path, **changes: Any) -> Request:
    """A conversion to LeRobot with everything said that the checkpoint does not say."""
    complete = Request(
        "openpi",
        source,
        "lerobot",
        target,
        chunk=10,
        tokenizer_length=LENGTH[family],
        cameras=CAMERA_MAP,
        state_dim=8,
        delta_actions="6,-1",
        discrete_state=True if family == "pi05" else None,
        tokenizer="hub",
        other_sizes=True,
    )
    return replace(complete, **changes)


def convert_here(request: Request) -> dict[str, Any]:
    """As `convert`, but verified in this process, which has the libraries loaded already."""
    with patch("vla_convert.convert.verify", verification._run):
        return convert(request)


class Converted:
    """A fixture, its reference batch, and the LeRobot directory that it became; verified in a fresh process."""

    def __init__(self, family: str, folder: Path) -> None:
        self.family = family
        self.source = FIXTURES / family / "7"
        self.reference = folder / f"{family}.npz"
        stored = {**np.load(FIXTURES / "images.npz"), **np.load(FIXTURES / family / "reference.npz")}
        np.savez(self.reference, **stored)
        self.directory = folder / f"{family}-lerobot"
        self.report = convert(request_for(family, self.source, self.directory, reference=self.reference))
