"""A policy directory is loaded by stock LeRobot in a fresh process, and its weights and actions are compared with the trainer's."""

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from safetensors.torch import load_file
from torch import Tensor

from ..errors import UserError
from ..partition import DType
from ..policies.spec import PolicySpec
from . import stock
from .checkpoint import Packable
from .compare import action_spans, in_fresh_process, tolerance_of

SCRIPT = Path(stock.__file__)


def verify_policy(
    directory: Path,
    checkpoint: Packable[PreTrainedPolicy],
    spec: PolicySpec,
    dataset: str,
    weights: dict[str, Tensor],
    dtype: DType,
) -> dict[str, Any]:
    """Reloads a policy directory and compares; prints the result and stores it in `verification.json`.

    Compared are the weights, bit by bit, and for the dataset's samples of the reference: `predict_action_chunk`, `select_action` and
    the postprocessed actions. Differences are in normalised units (a dimension's statistics divide them), so that metres and radians
    are judged alike. The tolerance follows the coarser of the package's dtype and the trainer's compute dtypes. A dataset without a
    sample in the reference is compared by its weights alone, and the result says so.

    Args:
        directory: the policy directory.
        checkpoint: with the reference.
        spec: the declaration, as exported.
        dataset: for which the directory is.
        weights: the trainer's, in the package's dtype.
        dtype: of the package.

    Raises:
        UserError: it does not load, the weights are not the trainer's, or actions differ by more than the tolerance.
    """
    coarsest, tolerance = tolerance_of(checkpoint.plan, dtype)
    rows = [i for i, name in enumerate(checkpoint.reference_datasets) if name == dataset]
    rest = json.loads((checkpoint.path / "reference.json").read_text())
    seeds = rest.get("seeds")
    job = {
        "directory": str(directory.resolve()),
        "plugin": spec.plugin,
        "plugin_path": _plugin_path(spec.plugin),
        "threads": torch.get_num_threads(),
        "reference": str((checkpoint.path / "reference.safetensors").resolve()),
        "rows": [
            {"index": i, "instruction": rest["instructions"][i], "seed": None if seeds is None else seeds[i]}
            for i in rows
        ],
        "weights": {name: stock.digest(tensor) for name, tensor in weights.items()},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job))
        # Nothing that this machine has downloaded may help: a robot has the package alone.
        environment = {
            "HF_HOME": str(folder / "home"),
            "TORCH_HOME": str(folder / "torch"),
            "HF_HUB_CACHE": str(folder / "hub"),
        }
        out = folder / "actions.safetensors"
        in_fresh_process(
            SCRIPT, [str(folder / "job.json"), str(out)], package=directory, folder=folder, environment=environment
        )
        found, answer = load_file(out), json.loads(out.with_suffix(".json").read_text())
    wrong = [f"{what}: {', '.join(names[:5])}" for what, names in answer["weights"].items() if names]
    differences = _differences(checkpoint, found, rows, dataset) if rows else {}
    largest = max(differences.values(), default=0.0) if all(d == d for d in differences.values()) else float("nan")
    passed = not wrong and largest <= tolerance and False not in answer["tokens"] + answer["names"]
    result = {
        "checkpoint": checkpoint.path.name,
        "update": checkpoint.update,
        "dataset": dataset,
        "lerobot": answer["lerobot"],
        "dtype": dtype,
        "computedIn": answer["dtypes"],
        "weights": {
            "tensors": len(weights),
            "bitEqual": not wrong,
            **{k: v for k, v in answer["weights"].items() if v},
        },
        "tokenizerFolder": answer["tokens"][0] if answer["tokens"] else None,
        "names": all(answer["names"]),
        "samples": len(rows),
        "differences": differences,
        "largestDifference": largest,
        "tolerance": tolerance,
        "toleranceOf": coarsest,
        "unit": "normalised action",
        "passed": passed,
    }
    (directory / "verification.json").write_text(json.dumps(result, indent=2) + "\n")
    told = (
        f"largest difference {largest:.3g} of {tolerance:.0e} allowed ({coarsest})"
        if rows
        else ("no sample of this dataset is in the reference, so no action was compared")
    )
    print(
        f"{directory}: reloaded by LeRobot {answer['lerobot']} in a fresh process; {len(weights)} tensors "
        f"{'equal bit by bit' if not wrong else 'NOT all equal'}; {told}",
        flush=True,
    )
    if wrong:
        raise UserError(
            f"{directory}: stock LeRobot does not load the trainer's weights ({'; '.join(wrong)}). Do not use this package."
        )
    if False in answer["names"]:
        raise UserError(
            f"{directory}: under the dataset's names a camera or the state arrives in the wrong place. Do not use this package."
        )
    if False in answer["tokens"]:
        raise UserError(
            f"{directory}: tokenizer/ gives other tokens than the policy's preprocessor. Do not use this package."
        )
    if not passed:
        raise UserError(
            f"{directory}: its actions differ from the trainer's by {largest:.3g}, more than {tolerance:.0e} "
            f"({', '.join(f'{what} {value:.3g}' for what, value in differences.items())}). Do not use this package."
        )
    return result


def _differences(
    checkpoint: Packable[Any], found: dict[str, Tensor], rows: list[int], dataset: str
) -> dict[str, float]:
    """Largest difference of what each of LeRobot's three ways answers, in normalised units."""
    wanted = {name: checkpoint.reference[name][rows].double() for name in ("normalized_actions", "actions")}
    given = {name: tensor.double() for name, tensor in found.items()}
    # A policy that returns as many actions as it executes returns fewer where the package executes fewer than training did.
    steps, given_steps = wanted["actions"].shape[1], given["normalized"].shape[1]
    # A policy may pad actions to a width of its own, which its postprocessor cuts.
    for kind, ours in (("normalized", "normalized_actions"), ("actions", "actions")):
        if given[kind].shape[2] != wanted[ours].shape[2] or given_steps not in (steps, given["selected"].shape[1]):
            raise UserError(
                f"The reloaded policy's {kind} actions have the shape {list(given[kind].shape)}, the trainer's {list(wanted[ours].shape)}."
            )
    spans = action_spans(checkpoint.normalization[dataset]["action"]).double()[: wanted["actions"].shape[2]]
    compared = min(steps, given_steps)
    selected = min(steps, given["selected"].shape[1])
    return {
        "predict_action_chunk": _largest(
            given["normalized"][:, :compared] - wanted["normalized_actions"][:, :compared]
        ),
        "select_action": _largest(given["selected"][:, :selected] - wanted["normalized_actions"][:, :selected]),
        "postprocessed": _largest((given["actions"][:, :compared] - wanted["actions"][:, :compared]) / spans),
    }


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max())


def _plugin_path(plugin: str | None) -> list[str]:
    """Where a plugin lies that is not installed: a robot needs it too."""
    if plugin is None:
        return []
    found = importlib.util.find_spec(plugin)
    if found is None or found.origin is None:
        return []
    package = Path(found.origin).resolve()
    return [str(package.parent.parent if package.name == "__init__.py" else package.parent)]
