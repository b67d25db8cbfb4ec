"""openpi's normalisation in LeRobot's steps, and back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from vla_convert.statistics import (
    EPSILON,
    Mode,
    Statistics,
    find_norm_stats,
    lerobot_statistics,
    normalize,
    openpi_statistics,
    read_norm_stats,
    unnormalize,
)
from vla_runtime.errors import UserError

MODES: tuple[Mode, ...] = ("MEAN_STD", "QUANTILES")
# An ordinary dimension, one that never varies, a tiny one, and a large one.
STATISTICS: Statistics = {
    "mean": np.array([0.3, 0.0, 2e-5, -40.0]),
    "std": np.array([1.7, 0.0, 3e-5, 90.0]),
    "q01": np.array([-3.1, 0.0, -1e-5, -210.0]),
    "q99": np.array([2.9, 0.0, 7e-5, 180.0]),
}


def steps(mode: Mode, eps: float) -> tuple[Any, Any]:
    from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.processor.normalize_processor import NormalizerProcessorStep, UnnormalizerProcessorStep

    features = {"action": PolicyFeature(FeatureType.ACTION, (4,))}
    modes = {FeatureType.ACTION: NormalizationMode[mode]}
    return tuple(
        kind(features, modes, stats={"action": lerobot_statistics(STATISTICS, mode, inverse=inverse)}, eps=eps)
        for kind, inverse in ((NormalizerProcessorStep, False), (UnnormalizerProcessorStep, True))
    )  # type: ignore[return-value]


def through(step: Any, x: np.ndarray) -> np.ndarray:
    from lerobot.lerobot_types import TransitionKey

    return step({TransitionKey.ACTION: torch.from_numpy(x)})[TransitionKey.ACTION].double().numpy()


@pytest.mark.parametrize("mode", MODES)
def test_lerobots_steps_do_what_openpi_does(mode: Mode) -> None:
    forward, backward = steps(mode, EPSILON)
    x = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 4)).astype(np.float32)
    robot = unnormalize(x.astype(np.float64), STATISTICS, mode)
    unit = unnormalize(np.ones(4), STATISTICS, mode) - unnormalize(np.zeros(4), STATISTICS, mode)
    assert np.allclose(through(backward, x) / unit, robot / unit, atol=2e-6)
    robot = robot.astype(np.float32)
    assert np.allclose(through(forward, robot), normalize(robot.astype(np.float64), STATISTICS, mode), atol=2e-6)


@pytest.mark.parametrize("mode", MODES)
def test_lerobots_epsilon_would_not(mode: Mode) -> None:
    forward, _ = steps(mode, 1e-8)
    robot = np.full((1, 4), 1e-6, dtype=np.float32)
    assert abs(through(forward, robot) - normalize(robot.astype(np.float64), STATISTICS, mode))[0, 1] > 50


@pytest.mark.parametrize("mode", MODES)
def test_back_to_openpi(mode: Mode) -> None:
    pre, post = (lerobot_statistics(STATISTICS, mode, inverse=inverse) for inverse in (False, True))
    for back in (openpi_statistics(pre, None, mode, EPSILON), openpi_statistics(pre, post, mode, EPSILON)):
        assert set(back) == set(STATISTICS)
        for name, values in STATISTICS.items():
            assert np.allclose(back[name], values, rtol=1e-6, atol=1e-11), name


def test_statistics_of_stock_lerobot_keep_their_deviation() -> None:
    """eps 1e-8 forwards, nothing backwards."""
    stock = {name: torch.from_numpy(values.astype(np.float32)) for name, values in STATISTICS.items()}
    state = openpi_statistics(stock, None, "MEAN_STD", 1e-8)
    assert np.allclose(state["std"] + EPSILON, np.maximum(STATISTICS["std"] + 1e-8, EPSILON), rtol=1e-6)
    action = openpi_statistics(stock, stock, "MEAN_STD", 1e-8)
    assert np.allclose(action["std"] + EPSILON, np.maximum(STATISTICS["std"], EPSILON), rtol=1e-6)


def write(folder: Path, told: Any) -> Path:
    file = folder / "norm_stats.json"
    file.write_text(json.dumps(told))
    return file


def whole() -> dict[str, Any]:
    values = {name: list(map(float, values)) for name, values in STATISTICS.items()}
    return {"norm_stats": {"state": dict(values), "actions": dict(values)}}


def test_bad_files_are_named(tmp_path: Path) -> None:
    assert set(read_norm_stats(write(tmp_path, whole()), "QUANTILES")) == {"state", "actions"}
    told = whole()
    del told["norm_stats"]["actions"]["q99"]
    read_norm_stats(write(tmp_path, told), "MEAN_STD")
    with pytest.raises(UserError, match="actions has no q99, by which this model is normalised"):
        read_norm_stats(write(tmp_path, told), "QUANTILES")
    told = whole()
    told["norm_stats"]["state"]["std"].pop()
    with pytest.raises(UserError, match="the statistics of state have different lengths"):
        read_norm_stats(write(tmp_path, told), "MEAN_STD")
    told = whole()
    told["norm_stats"]["state"]["mean"][2] = float("nan")
    with pytest.raises(UserError, match=r"state\.mean is not finite in dimension 2"):
        read_norm_stats(write(tmp_path, told), "MEAN_STD")
    for broken in ({"norm_stats": {"state": {}}}, {}, []):
        with pytest.raises(UserError, match="is not as openpi writes it"):
            read_norm_stats(write(tmp_path, broken), "MEAN_STD")


def test_the_asset_is_found_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no assets/<asset id>/norm_stats\.json.*copy the folder assets"):
        find_norm_stats(tmp_path, None)
    for asset in ("trossen", "physical-intelligence/libero"):
        (tmp_path / "assets" / asset).mkdir(parents=True)
        (tmp_path / "assets" / asset / "norm_stats.json").write_text("{}")
    with pytest.raises(
        UserError, match="statistics of physical-intelligence/libero, trossen. Choose one with --asset-id"
    ):
        find_norm_stats(tmp_path, None)
    with pytest.raises(UserError, match="has no statistics of droid"):
        find_norm_stats(tmp_path, "droid")
    assert find_norm_stats(tmp_path, "physical-intelligence/libero")[0] == "physical-intelligence/libero"
