"""Normalisation against its formulae."""

from typing import Any

import numpy as np
import pytest
import torch
from vla_runtime.modeling.normalize import normalizer

RANDOM = np.random.default_rng(0)
STATISTICS = {
    "mean": [0.5, -3.0, 0.0],
    "std": [2.0, 0.01, 1.0],
    "min": [-1.0, -3.5, -2.0],
    "max": [3.0, -2.5, 2.0],
    "q01": [-0.5, -3.2, -1.5],
    "q99": [2.5, -2.8, 1.5],
}
X = RANDOM.uniform(-1, 1, (5, 4, 3)) * [2, 0.2, 1] + [0.5, -3, 0]


@pytest.mark.parametrize("mode", ["meanStd", "minMax", "quantiles", "identity"])
@pytest.mark.parametrize("mask", [None, [True, False, True]])
@pytest.mark.parametrize("kind", ["numpy", "torch64", "torch32"])
def test_the_inverse_undoes_it(mode: str, mask: list[bool] | None, kind: str) -> None:
    normal = normalizer("action", mode, STATISTICS, mask=mask)
    x: Any = X if kind == "numpy" else torch.from_numpy(X).to(torch.float64 if kind == "torch64" else torch.float32)
    y = normal(x)
    assert type(y) is type(x) and y.dtype == x.dtype and y.shape == x.shape
    back, tolerance = normal.inverse(y), 2e-6 if kind == "torch32" else 1e-12
    assert float(abs(back - x).max()) < tolerance
    if mode == "identity":
        assert bool((y == x).all())
    if mask is not None:
        assert bool((y[..., 1] == x[..., 1]).all())


def test_the_formulae() -> None:
    s = {name: np.asarray(value) for name, value in STATISTICS.items()}
    np.testing.assert_allclose(normalizer("a", "meanStd", s)(X), (X - s["mean"]) / (s["std"] + 1e-8), rtol=1e-12)
    np.testing.assert_allclose(
        normalizer("a", "minMax", s)(X), 2 * (X - s["min"]) / (s["max"] - s["min"] + 1e-8) - 1, rtol=1e-9
    )
    q99 = 2 * (X - s["q01"]) / (s["q99"] - s["q01"] + 1e-8) - 1
    np.testing.assert_allclose(normalizer("a", "quantiles", s)(X), q99, rtol=1e-9)
    np.testing.assert_allclose(normalizer("a", "quantiles", s, clip=True)(X), np.clip(q99, -1, 1), rtol=1e-9)


def test_openvlas_inverse() -> None:
    """modeling_prismatic.py, predict_action: 0.5 * (a + 1) * (q99 - q01) + q01 where mask, else a."""
    q01, q99, mask = np.asarray(STATISTICS["q01"]), np.asarray(STATISTICS["q99"]), np.array([True, True, False])
    actions = RANDOM.uniform(-1, 1, (6, 3))
    expected = np.where(mask, 0.5 * (actions + 1) * (q99 - q01) + q01, actions)
    normal = normalizer("action", "quantiles", STATISTICS, mask=mask.tolist(), clip=True)
    np.testing.assert_allclose(normal.inverse(actions, epsilon=0.0), expected, rtol=1e-12)


def test_tensors_and_arrays_agree_on_any_device_dtype() -> None:
    normal = normalizer("action", "quantiles", STATISTICS, clip=True)
    np.testing.assert_array_equal(normal(torch.from_numpy(X)).numpy(), normal(X))


@pytest.mark.parametrize("mode", ["meanStd", "minMax", "quantiles"])
def test_constant_dimensions_are_refused_unless_declared(mode: str) -> None:
    still = {name: list(value) for name, value in STATISTICS.items()}
    still["std"][1], still["max"][1], still["q99"][1] = 0.0, still["min"][1], still["q01"][1]
    with pytest.raises(ValueError, match=r"observation.state: dimensions \[1\] never change.*constant: 'pass'"):
        normalizer("observation.state", mode, still)
    passing = normalizer("observation.state", mode, still, constant="pass")
    assert (passing(X)[..., 1] == X[..., 1]).all() and (passing.inverse(passing(X))[..., 1] == X[..., 1]).all()
    zeroing = normalizer("observation.state", mode, still, constant="zero")
    value = {"meanStd": still["mean"], "minMax": still["min"], "quantiles": still["q01"]}[mode][1]
    assert (zeroing(X)[..., 1] == 0).all() and (zeroing.inverse(zeroing(X))[..., 1] == value).all()
    masked = normalizer("observation.state", mode, still, mask=[True, False, True])
    assert (masked(X)[..., 1] == X[..., 1]).all()


def test_missing_and_non_finite_statistics_stop_by_name() -> None:
    with pytest.raises(ValueError, match="action has no statistic 'q99'"):
        normalizer("action", "quantiles", {"q01": [0.0]})
    with pytest.raises(ValueError, match=r"action: the statistic 'std' is not finite in dimensions \[2\]"):
        normalizer("action", "meanStd", {"mean": [0, 0, 0], "std": [1, 1, float("nan")]})
    with pytest.raises(ValueError, match="lengths 2, 3, 2"):
        normalizer("action", "meanStd", {"mean": [0, 0], "std": [1, 1, 1]})
    with pytest.raises(ValueError, match="Unknown normalisation 'zscore'"):
        normalizer("action", "zscore", STATISTICS)
    with pytest.raises(ValueError, match="Unknown treatment"):
        normalizer("action", "meanStd", STATISTICS, constant="ignore")
