"""With this folder and the one above on PYTHONPATH, every process of a generated project builds pi0 and pi0.5 small.

The depth is the environment's, so that the isolated process that reloads a package has the same.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from small_pi import DEPTH, replacements


def _policy(module: ModuleType) -> dict[str, Any]:
    return replacements(module, DEPTH)


def _preflight(_: ModuleType) -> dict[str, Any]:
    """The disk of this machine need not hold checkpoints of the real size."""
    return {"disk_space": lambda run, *, bytes_needed: None}


def _verification(_: ModuleType) -> dict[str, Any]:
    return {"SCRIPT": Path(__file__).resolve().parents[2] / "pack" / "small_stock.py"}


CHANGES: Mapping[str, Callable[[ModuleType], dict[str, Any]]] = {
    "lerobot.policies.pi0.modeling_pi0": _policy,
    "lerobot.policies.pi05.modeling_pi05": _policy,
    "vla_runtime.preflight": _preflight,
    "vla_runtime.pack.policy_verification": _verification,
}


class Small(MetaPathFinder):
    """Finds these modules as ever, and replaces some of their names when they have run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = CHANGES.get(fullname)
        spec = None if change is None else PathFinder.find_spec(fullname, path, target)
        if change is None or spec is None or spec.loader is None:
            return None
        loader: Loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            vars(module).update(change(module))

        loader.exec_module = exec_module
        return spec


assert "SMALL_PI_DEPTH" in os.environ, (
    "the isolated process that reloads a package knows the depth by SMALL_PI_DEPTH alone"
)
sys.meta_path.insert(0, Small())
