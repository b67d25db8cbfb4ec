"""LeRobot's normaliser with the packed statistics does what the trainer's does."""

import pytest
import torch
from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
from lerobot.processor import NormalizerProcessorStep, UnnormalizerProcessorStep
from lerobot.processor.converters import create_transition
from vla_runtime.modeling.normalize import normalizer
from vla_runtime.pack.lerobot import MODES, effective_statistics

STATISTICS = {
    "mean": [0.5, -2.0, 3.0, 0.1], "std": [0.2, 1.5, 0.0, 4.0], "min": [0.0, -4.0, 3.0, -9.0], "max": [1.0, 1.0, 3.0, 9.0],
    "q01": [0.1, -3.0, 3.0, -8.0], "q99": [0.9, 0.5, 3.0000000004, 8.0],  # what rounding leaves of a constant
}  # fmt: skip


@pytest.mark.parametrize("mode", ["meanStd", "minMax", "quantiles", "identity"])
@pytest.mark.parametrize("constant", ["pass", "zero"])
@pytest.mark.parametrize("mask", [None, [True, True, True, False]])
def test_equals_the_trainers(mode: str, constant: str, mask: list[bool] | None) -> None:
    recipe = {
        "feature": "action",
        "mode": mode,
        "statistics": STATISTICS,
        "mask": mask,
        "clip": False,
        "constant": constant,
    }
    ours = normalizer(**recipe)
    features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        "action": PolicyFeature(FeatureType.ACTION, (4,)),
    }
    modes = {FeatureType.STATE: NormalizationMode[MODES[mode]], FeatureType.ACTION: NormalizationMode[MODES[mode]]}
    torch.manual_seed(0)
    raw = torch.tensor(STATISTICS["mean"]) + torch.randn(50, 4) * torch.tensor([0.3, 1.0, 0.0, 3.0])

    before = NormalizerProcessorStep(
        features, modes, stats={"observation.state": effective_statistics(recipe, inverse=False)}
    )
    theirs = before(create_transition(observation={"observation.state": raw}))["observation"]["observation.state"]  # type: ignore[index]
    torch.testing.assert_close(theirs, ours(raw), rtol=1e-5, atol=1e-5)

    after = UnnormalizerProcessorStep(features, modes, stats={"action": effective_statistics(recipe, inverse=True)})
    predicted = torch.randn(50, 4)
    back = after(create_transition(action=predicted))["action"]  # type: ignore[index]
    torch.testing.assert_close(back, ours.inverse(predicted), rtol=1e-5, atol=1e-5)
