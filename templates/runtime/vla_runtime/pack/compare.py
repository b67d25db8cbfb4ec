"""Every package is loaded in a fresh process and its actions are compared with the trainer's."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from ..errors import UserError
from ..modeling.normalize import normalizer
from ..partition import DType
from . import reload
from .checkpoint import Packable

# Largest difference of a normalised action. Two programs of the same mathematics in that precision stay well below it; a missing
# tensor, a swapped camera or another normaliser does not.
TOLERANCE: dict[str, float] = {"fp64": 1e-5, "fp32": 1e-4, "bf16": 5e-2}


def verify_package(package: Path, checkpoint: Packable[Any], dtype: DType) -> dict[str, Any]:
    """Reloads a package and compares; prints and stores the largest difference and the tolerance in `verification.json`.

    Differences are in normalised units (a dimension's statistics divide them), so that metres and radians are judged alike. The
    tolerance follows the coarser of the package's dtype and the trainer's compute dtypes.

    Raises:
        UserError: the package does not load, or its actions differ by more than the tolerance.
    """
    coarsest, tolerance = tolerance_of(checkpoint.plan, dtype)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "actions.safetensors"
        arguments = [str(package.resolve()), str(checkpoint.path.resolve()), str(out)]
        in_fresh_process(Path(reload.__file__), arguments, package=package, folder=Path(folder))
        actions = load_file(out)["actions"]
    wanted = checkpoint.reference["actions"].to(actions.dtype)
    recipes = [checkpoint.normalization[name]["action"] for name in checkpoint.reference_datasets]
    spans = torch.stack([action_spans(recipe) for recipe in recipes]).to(actions.dtype)
    if actions.shape != wanted.shape:
        raise UserError(f"{package} gives actions of shape {list(actions.shape)}, the trainer {list(wanted.shape)}.")
    difference = float(((actions - wanted).abs() / spans[:, None, :]).max())
    result = {
        "checkpoint": checkpoint.path.name,
        "update": checkpoint.update,
        "dtype": dtype,
        "largestDifference": difference,
        "tolerance": tolerance,
        "toleranceOf": coarsest,
        "unit": "normalised action",
        "actions": list(actions.shape),
    }
    (package / "verification.json").write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"{package}: reloaded in a fresh process; largest difference {difference:.3g} of {tolerance:.0e} allowed ({coarsest})",
        flush=True,
    )
    if not difference <= tolerance:
        raise UserError(
            f"{package}: its actions differ from the trainer's by {difference:.3g}, more than {tolerance:.0e}. Do not use this package."
        )
    return result


def tolerance_of(plan: dict[str, Any], dtype: DType) -> tuple[DType, float]:
    """The coarser of a package's dtype and the trainer's compute dtypes, and the difference that it explains."""
    dtypes: list[DType] = [dtype, *(module["dtype"] for module in plan["pipeline"]["modules"])]
    coarsest = max(dtypes, key=lambda name: TOLERANCE[name])
    return coarsest, TOLERANCE[coarsest]


def in_fresh_process(
    script: Path,
    arguments: list[str],
    *,
    package: Path,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a script that opens a package, offline and with nothing of ours on its path.

    Args:
        script: stands alone.
        package: for messages.
        folder: where it runs and may write.
        environment: more variables.

    Raises:
        UserError: it failed; with what it wrote to stderr.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    fresh = {
        "HF_HUB_OFFLINE": "1",
        "HF_MODULES_CACHE": str(folder / "modules"),
        "TOKENIZERS_PARALLELISM": "false",
        **(environment or {}),
    }
    command = [sys.executable, "-I", str(script.resolve()), *arguments]
    done = subprocess.run(command, cwd=folder, env={**inherited, **fresh}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        raise UserError(f"{package} does not load in a fresh process: {last}\n{done.stderr}")


def action_spans(recipe: dict[str, Any]) -> torch.Tensor:
    """Units of the robot per normalised unit, by dimension [A]; 1 where the dimension passes or is constant."""
    rule = normalizer(**recipe)
    span = rule.span / 2 if rule.bounds else rule.span
    return torch.as_tensor(np.where(rule.passes | rule.zero, 1.0, span))
