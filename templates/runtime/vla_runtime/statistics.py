"""Statistics of a dataset's features: read, checked, and in the form in which LeRobot's own normaliser takes them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from .errors import UserError
from .modeling.normalize import MODES, normalizer

Mode = Literal["meanStd", "minMax", "quantiles", "quantile10", "identity"]
Constant = Literal["refuse", "pass", "zero"]
STATISTICS = ("mean", "std", "min", "max", "q01", "q10", "q90", "q99")
RECOMPUTE = "Recompute them: `lerobot-edit-dataset --operation.type recompute_stats`."
QUANTILES = "Add quantiles (`python -m lerobot.scripts.augment_dataset_quantile_stats`), or choose normalize 'meanStd' or 'minMax'."
FAR = 1e6  # half the range that stands for "this dimension always becomes 0"


def read_statistics(path: Path, feature: str) -> dict[str, list[float]]:
    """The statistics of a feature in `meta/stats.json`, each flat.

    Raises:
        UserError: the file cannot be read, or does not have the feature.
    """
    try:
        everything = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as problem:
        raise UserError(f"{path}: cannot read the dataset's statistics ({problem}). {RECOMPUTE}") from None
    if feature not in everything:
        raise UserError(f"{path} has no statistics of '{feature}'; it has {', '.join(sorted(everything))}. {RECOMPUTE}")
    return {
        key: torch.tensor(everything[feature][key], dtype=torch.float64).flatten().tolist()
        for key in STATISTICS
        if key in everything[feature]
    }


def recipe(
    feature: str,
    mode: Mode,
    statistics: Mapping[str, Sequence[float]],
    *,
    constant: Constant,
    mask: list[bool] | None,
    clip: bool,
    where: Path | str,
    names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The arguments of `normalizer` for a feature, checked. JSON.

    Args:
        where: from where the statistics are, for messages.
        names: of the feature's dimensions, for messages.

    Raises:
        UserError: a needed statistic is missing or not finite, or a dimension is constant and nothing was said about that.
    """
    made = {
        "feature": feature,
        "mode": mode,
        "statistics": {key: list(values) for key, values in statistics.items()},
        "mask": mask,
        "clip": clip,
        "constant": constant,
    }
    try:
        normalizer(**made)
    except ValueError as problem:
        told = f" The dimensions are {', '.join(f'{i} {name}' for i, name in enumerate(names))}." if names else ""
        hint = f" {QUANTILES}" if mode in ("quantiles", "quantile10") and MODES[mode][0] not in statistics else ""
        raise UserError(f"{where}: {problem}{told}{hint}") from None
    return made


def effective_statistics(recipe: Mapping[str, Any], *, inverse: bool) -> dict[str, Tensor]:
    """Statistics with which LeRobot's normaliser does what ours does, dimension by dimension.

    A dimension that passes gets bounds -1 and 1 (or mean 0, std 1). A constant dimension that is declared to become 0 gets a range so
    wide that everything becomes 0 (forward), or no range at all (inverse), so that every prediction becomes the constant.
    """
    mode, statistics = recipe["mode"], recipe["statistics"]
    result = {key: torch.tensor(values, dtype=torch.float32) for key, values in statistics.items()}
    if mode == "identity":
        return result
    low, high = MODES[mode]
    bounds = mode != "meanStd"
    rule = normalizer(**recipe)
    for i, first in enumerate(statistics[low]):
        if rule.passes[i]:
            result[low][i], result[high][i] = (-1.0, 1.0) if bounds else (0.0, 1.0)
        elif rule.zero[i] and inverse:
            result[low][i], result[high][i] = (first, first) if bounds else (first, 0.0)
        elif rule.zero[i]:
            result[low][i], result[high][i] = (first - FAR, first + FAR) if bounds else (first, FAR)
    return result
