"""What the tests vary."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """The values of one test's project; `settings.json` beside this file holds those that differ."""

    updates: int = 6
    every: int = 2
    keep: int = 2
    warmup: int = 2
    world: int = 2
    strategy: Literal["full", "gradOp", "ddp"] = "full"
    freeze: int = 3  # update at which the tower unfreezes; 0: never frozen
    dropout: float = 0.1
    skip_non_finite: int = 10
    width: int = 16
    grace: float = 30.0
    workers: int = 0  # loader processes; real data only
    lora: int = 0  # rank of adapters on the trunk; 0: none


_PATH = Path(__file__).with_name("settings.json")
SETTINGS = Settings(**json.loads(_PATH.read_text(encoding="utf-8"))) if _PATH.exists() else Settings()
