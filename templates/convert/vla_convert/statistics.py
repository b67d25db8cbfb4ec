"""openpi's norm_stats.json and LeRobot's normalisers, which do the same with another epsilon.

openpi (src/openpi/transforms.py, Normalize and Unnormalize) adds 1e-6 in both directions: (x - mean) / (std + 1e-6) and
(x - q01) / (q99 - q01 + 1e-6) * 2 - 1. LeRobot (processor/normalize_processor.py) adds its `eps` to std forwards and nothing backwards,
and to a span of quantiles only where it is 0. So `eps` becomes 1e-6, and where LeRobot adds nothing the statistic itself holds it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from vla_runtime.errors import UserError

EPSILON = 1e-6
Mode = Literal["MEAN_STD", "QUANTILES"]
MODES: dict[str, Mode] = {"pi0": "MEAN_STD", "pi05": "QUANTILES"}
"""openpi normalises pi0 by mean and std and everything later by quantiles (training/config.py, use_quantile_norm)."""
NAMES = {"MEAN_STD": ("mean", "std"), "QUANTILES": ("q01", "q99")}
STATISTICS = ("mean", "std", "q01", "q99")

Statistics = dict[str, np.ndarray]
"""Statistic -> float64 [dimensions]."""


def find_norm_stats(directory: Path, asset_id: str | None) -> tuple[str, Path]:
    """The asset id and the file of an openpi checkpoint's statistics.

    Raises:
        UserError: there is none, or there are several and none is named.
    """
    assets = directory / "assets"
    found = {str(file.parent.relative_to(assets)): file for file in sorted(assets.rglob("norm_stats.json"))}
    if not found:
        raise UserError(
            f"{directory} has no assets/<asset id>/norm_stats.json, and actions in a robot's units need it. It lies in every checkpoint "
            "that openpi trains. openpi's own converter to PyTorch leaves it behind (it looks beside the checkpoint): copy the folder "
            "assets of the original checkpoint here."
        )
    if asset_id is None and len(found) == 1:
        asset_id = next(iter(found))
    if asset_id is None:
        raise UserError(f"{assets} has statistics of {', '.join(found)}. Choose one with --asset-id.")
    if asset_id not in found:
        raise UserError(f"{assets} has no statistics of {asset_id}; it has those of {', '.join(found)}.")
    return asset_id, found[asset_id]


def read_norm_stats(path: Path, mode: Mode) -> dict[str, Statistics]:
    """`state` and `actions` of a norm_stats.json.

    Raises:
        UserError: one of them or a statistic that the mode needs is missing, not finite, or of another length than its fellows.
    """
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["norm_stats"]
        kept = {
            role: {name: np.asarray(told[role][name], dtype=np.float64) for name in STATISTICS if told[role].get(name)}
            for role in ("state", "actions")
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not as openpi writes it ({type(error).__name__}: {error}).") from error
    for role, statistics in kept.items():
        lacking = [name for name in NAMES[mode] if name not in statistics]
        if lacking:
            raise UserError(f"{path}: {role} has no {' and no '.join(lacking)}, by which this model is normalised.")
        widths = {values.shape for values in statistics.values()}
        if len(widths) != 1 or len(next(iter(widths))) != 1:
            raise UserError(f"{path}: the statistics of {role} have different lengths.")
        for name, values in statistics.items():
            if not np.isfinite(values).all():
                raise UserError(
                    f"{path}: {role}.{name} is not finite in dimension {int(np.argmin(np.isfinite(values)))}."
                )
        low, high = (
            (np.zeros_like(statistics["std"]), statistics["std"])
            if mode == "MEAN_STD"
            else (
                statistics["q01"],
                statistics["q99"],
            )
        )
        if (high < low).any():
            what = "std is negative" if mode == "MEAN_STD" else "q99 is below q01"
            raise UserError(f"{path}: {role}: {what} in dimension {int(np.argmax(high < low))}.")
    return kept


def lerobot_statistics(statistics: Statistics, mode: Mode, *, inverse: bool) -> dict[str, Tensor]:
    """Statistics with which LeRobot's normaliser, at `eps` 1e-6, does what openpi's does.

    Args:
        statistics: openpi's.
        mode: of the feature.
        inverse: for the postprocessor.
    """
    result = {name: torch.from_numpy(values.astype(np.float32)) for name, values in statistics.items()}
    if mode == "MEAN_STD":
        if inverse:
            result["std"] = torch.from_numpy((statistics["std"] + EPSILON).astype(np.float32))
        return result
    low = statistics["q01"].astype(np.float32)
    span = statistics["q99"] - statistics["q01"]
    # Where the span is 0, LeRobot puts `eps` in its place, which is what openpi's sum is.
    high = np.where(span == 0, low, (low.astype(np.float64) + span + EPSILON).astype(np.float32))
    return result | {"q01": torch.from_numpy(low), "q99": torch.from_numpy(high.astype(np.float32))}


def openpi_statistics(
    pre: Mapping[str, Tensor], post: Mapping[str, Tensor] | None, mode: Mode, eps: float
) -> Statistics:
    """openpi's statistics, from those of LeRobot's normalisers: the inverse of `lerobot_statistics`.

    A span or deviation below 1e-6 becomes 0, which openpi treats as 1e-6.

    Args:
        pre: of the feature in the preprocessor.
        post: of the feature in the postprocessor, where it is unnormalised: what comes out of the robot's side counts.
        mode: of the feature.
        eps: of the normalisers.
    """
    decisive = {name: values.double().numpy() for name, values in (pre if post is None else post).items()}
    result = {name: decisive[name] for name in STATISTICS if name in decisive}
    if mode == "MEAN_STD":
        added = eps if post is None else 0.0
        return result | {"std": np.maximum(decisive["std"] + added - EPSILON, 0.0)}
    span = decisive["q99"] - decisive["q01"]
    span = np.where(span == 0, eps, span)
    return result | {"q99": decisive["q01"] + np.maximum(span - EPSILON, 0.0)}


def normalize(x: np.ndarray, statistics: Statistics, mode: Mode) -> np.ndarray:
    """openpi's normalisation in float64, [..., D]."""
    if mode == "MEAN_STD":
        return (x - statistics["mean"]) / (statistics["std"] + EPSILON)
    return (x - statistics["q01"]) / (statistics["q99"] - statistics["q01"] + EPSILON) * 2.0 - 1.0


def unnormalize(x: np.ndarray, statistics: Statistics, mode: Mode) -> np.ndarray:
    """The inverse of `normalize`."""
    if mode == "MEAN_STD":
        return x * (statistics["std"] + EPSILON) + statistics["mean"]
    return (x + 1.0) / 2.0 * (statistics["q99"] - statistics["q01"] + EPSILON) + statistics["q01"]
