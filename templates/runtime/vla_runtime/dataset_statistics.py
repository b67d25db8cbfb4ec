"""Normalisation statistics of a dataset: read by mode, checked, and never replaced by the identity in silence."""

import json
import math
from pathlib import Path
from typing import Any, Literal

from .errors import UserError

Mode = Literal["meanStd", "minMax", "quantiles", "identity"]
Constant = Literal["refuse", "pass", "zero"]

NEEDED: dict[str, tuple[str, str]] = {"meanStd": ("mean", "std"), "minMax": ("min", "max"), "quantiles": ("q01", "q99")}
ALL = ("mean", "std", "min", "max", "q01", "q99")


def read_statistics(root: Path, feature: str, mode: Mode, constant: Constant, names: list[str] | None, mask: list[bool] | None) -> dict[str, Any]:
    """The statistics of one feature from `meta/stats.json`, checked for its mode.

    Args:
        root: folder of the LeRobot dataset.
        feature: such as `action`.
        mode: which statistics are used; `identity` uses none.
        constant: what to do with a dimension whose range is zero: `refuse` stops, `pass` leaves it unnormalised, `zero` maps it to 0
            (and back to the constant).
        names: names of the dimensions, for messages.
        mask: False where a dimension passes unnormalised by declaration (OpenVLA's gripper).

    Returns:
        `{"mean": [...], "std": [...], "min": [...], ...}` as far as the dataset has them, with `"mask": [bool]` (False: passes
        unnormalised) and `"zero": [bool]` (True: maps to 0).

    Raises:
        UserError: a needed statistic is missing, non-finite or has another width, or a dimension is constant under `refuse`.
    """
    path = root / "meta" / "stats.json"
    try:
        everything = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as problem:
        raise UserError(f"{path}: cannot read the dataset's statistics ({problem}). Recompute them with `lerobot-edit-dataset --operation.type recompute_stats`.") from None
    if feature not in everything:
        raise UserError(f"{path}: no statistics of '{feature}'. It has {', '.join(sorted(everything))}.")
    raw = everything[feature]
    found = {key: [float(value) for value in raw[key]] for key in ALL if key in raw}
    width = max((len(values) for values in found.values()), default=0)
    result: dict[str, Any] = dict(found)
    result["mask"] = [True] * width if mask is None else list(mask)
    result["zero"] = [False] * width
    if len(result["mask"]) != width:
        raise UserError(f"normalize.actionMask has {len(result['mask'])} entries, '{feature}' of {path} has {width} dimensions.")
    if mode == "identity":
        result["mask"] = [False] * width
        return result

    low_key, high_key = NEEDED[mode]
    for key in (low_key, high_key):
        if key not in found:
            hint = (
                "Add quantiles with `python -m lerobot.scripts.augment_dataset_quantile_stats`, or choose normalize 'meanStd' or 'minMax'."
                if mode == "quantiles"
                else "Recompute them with `lerobot-edit-dataset --operation.type recompute_stats`."
            )
            raise UserError(f"{path}: '{feature}' has no statistic '{key}', which normalize '{mode}' needs. {hint}")
        bad = [i for i, value in enumerate(found[key]) if not math.isfinite(value)]
        if bad:
            raise UserError(f"{path}: '{feature}.{key}' is not finite in {_dimensions(bad, names)}. Recompute the statistics.")
    if len(found[low_key]) != len(found[high_key]):
        raise UserError(f"{path}: '{feature}.{low_key}' has {len(found[low_key])} dimensions, '{feature}.{high_key}' has {len(found[high_key])}.")

    spans = found["std"] if mode == "meanStd" else [high - low for low, high in zip(found[low_key], found[high_key], strict=True)]
    flat = [i for i, span in enumerate(spans) if result["mask"][i] and span <= 1e-8 * max(1.0, abs(found[high_key][i]))]
    if flat and constant == "refuse":
        raise UserError(
            f"{path}: '{feature}' does not vary in {_dimensions(flat, names)}, so '{mode}' would divide by zero. Say what to do: "
            "normalize: { constant: 'pass' } leaves such dimensions as they are, 'zero' maps them to 0 and back to the constant."
        )
    for i in flat:
        result["mask"][i] = False
        result["zero"][i] = constant == "zero"
    return result


def _dimensions(indices: list[int], names: list[str] | None) -> str:
    shown = [f"{i} ({names[i]})" if names and i < len(names) else str(i) for i in indices]
    return ("dimension " if len(shown) == 1 else "dimensions ") + ", ".join(shown)
