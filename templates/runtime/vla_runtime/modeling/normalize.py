"""Normalisation of actions and proprioception, with OpenVLA's formulae, on tensors and numpy arrays alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

EPSILON = 1e-8
CONSTANT = 1e-6  # a range (or std) below this share of the dimension's magnitude, at least of 1, is none
MODES = {
    "meanStd": ("mean", "std"),
    "minMax": ("min", "max"),
    "quantiles": ("q01", "q99"),
    "quantile10": ("q10", "q90"),
    "identity": (),
}

Array = TypeVar("Array", np.ndarray, torch.Tensor)


class _Numbers(Protocol):
    def __iter__(self) -> Any: ...


@dataclass(frozen=True)
class Normalizer:
    """`x' = scale * (x - low) + offset` per dimension, and back.

    Build it with `normalizer`, which checks the statistics.
    """

    low: np.ndarray
    """fp64 [D]: mean, min or q01."""
    span: np.ndarray
    """fp64 [D]: std, or the range of the bounds. 1 where the dimension passes."""
    bounds: bool
    """Whether the range is mapped to [-1, 1]."""
    passes: np.ndarray
    """bool [D]: left as it is (masked out, identity, or constant and declared to pass)."""
    zero: np.ndarray
    """bool [D]: constant and declared to become 0."""
    clip: bool
    """Whether bounded dimensions are clipped to [-1, 1]."""

    def __call__(self, x: Array) -> Array:
        """[..., D] -> normalised [..., D] of the same type and dtype."""
        low, span, passes, zero = (self._like(value, x) for value in (self.low, self.span, self.passes, self.zero))
        y = (x - low) / (span + EPSILON)
        if self.bounds:
            y = 2 * y - 1
            if self.clip:
                y = y.clip(-1, 1)
        return self._where(zero, 0 * x, self._where(passes, x, y))

    def inverse(self, y: Array, *, epsilon: float = EPSILON) -> Array:
        """Normalised [..., D] -> [..., D]. OpenVLA's own inverse adds no epsilon to the span: pass 0."""
        low, span, passes, zero = (self._like(value, y) for value in (self.low, self.span, self.passes, self.zero))
        x = (0.5 * (y + 1) if self.bounds else y) * (span + epsilon) + low
        return self._where(zero, 0 * y + low, self._where(passes, y, x))

    @staticmethod
    def _like(value: np.ndarray, x: Array) -> Array:
        if isinstance(x, torch.Tensor):
            dtype = torch.bool if value.dtype == np.bool_ else x.dtype
            return torch.as_tensor(value).to(device=x.device, dtype=dtype)
        return value if value.dtype == np.bool_ else value.astype(x.dtype)

    @staticmethod
    def _where(condition: Array, yes: Array, no: Array) -> Array:
        if isinstance(condition, torch.Tensor):
            return torch.where(condition, yes, no)  # type: ignore[arg-type, return-value]
        return np.where(condition, yes, no)  # type: ignore[return-value]


def normalizer(
    feature: str,
    mode: str,
    statistics: Mapping[str, Sequence[float] | np.ndarray],
    *,
    mask: Sequence[bool] | None = None,
    clip: bool = False,
    constant: str = "refuse",
) -> Normalizer:
    """The normaliser of a feature from its statistics.

    Args:
        feature: its name, for messages.
        mode: meanStd, minMax, quantiles, quantile10 or identity.
        statistics: mean and std, min and max, q01 and q99, or q10 and q90, each [D].
        mask: false where a dimension passes as it is (OpenVLA's gripper).
        clip: clip what the bounds map outside [-1, 1].
        constant: what becomes of a dimension whose std or range is zero (see `CONSTANT`): refuse, pass (as it is) or zero.

    Raises:
        ValueError: a statistic is missing or not finite, or a dimension is constant and that was not provided for. Names the
            feature and its dimensions.
    """
    if mode not in MODES:
        raise ValueError(f"Unknown normalisation {mode!r} of {feature}: use one of {', '.join(MODES)}.")
    if constant not in ("refuse", "pass", "zero"):
        raise ValueError(
            f"Unknown treatment {constant!r} of constant dimensions of {feature}: use refuse, pass or zero."
        )
    if mode == "identity":
        size = len(mask) if mask is not None else len(next(iter(statistics.values()), [0]))
        nothing = np.zeros(size)
        return Normalizer(nothing, nothing + 1, False, nothing == 0, nothing != 0, False)
    values = {}
    for name in MODES[mode]:
        if name not in statistics:
            raise ValueError(f"{feature} has no statistic {name!r}, which the normalisation {mode} needs.")
        values[name] = np.asarray(statistics[name], dtype=np.float64).reshape(-1)
    first, second = values.values()
    used = np.ones(len(first), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if len(second) != len(first) or len(used) != len(first):
        raise ValueError(
            f"{feature}: statistics {MODES[mode]} and mask have lengths {len(first)}, {len(second)}, {len(used)}."
        )
    for name, value in values.items():
        bad = np.flatnonzero(used & ~np.isfinite(value))
        if bad.size:
            raise ValueError(f"{feature}: the statistic {name!r} is not finite in dimensions {bad.tolist()}.")
    span = second if mode == "meanStd" else second - first
    # What rounding leaves of a dimension that never changes is no range: dividing by it would make noise of it.
    still = used & (span <= CONSTANT * np.maximum(1.0, np.abs(second if mode != "meanStd" else first)))
    if still.any() and constant == "refuse":
        raise ValueError(
            f"{feature}: dimensions {np.flatnonzero(still).tolist()} never change ({MODES[mode][-1]} gives no range). "
            "Say what to do with them: normalize: { constant: 'pass' } leaves them as they are, 'zero' makes them 0."
        )
    zero = still if constant == "zero" else np.zeros_like(still)
    passes = ~used | (still & ~zero)
    low = np.where(np.isfinite(first), first, 0.0)
    return Normalizer(low, np.where(passes | still, 1.0, span), mode != "meanStd", passes, zero, clip)
