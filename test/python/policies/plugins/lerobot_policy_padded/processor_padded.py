"""Its processors: actions are padded behind the normaliser, and cut before it is undone."""

from dataclasses import dataclass
from typing import Any

import torch
from lerobot.configs import PipelineFeatureType, PolicyFeature
from lerobot.processor import PolicyActionProcessorStep, ProcessorStepRegistry
from lerobot.processor.factory import make_default_policy_processor_steps, make_policy_processor_pipelines
from torch import Tensor
from torch.nn import functional

from .configuration_padded import PaddedConfig

Features = dict[PipelineFeatureType, dict[str, PolicyFeature]]


@dataclass
@ProcessorStepRegistry.register("padded_to_width")
class ToWidth(PolicyActionProcessorStep):
    """Brings actions to a width: padded with zeros, or cut."""

    width: int

    def __call__(self, transition: Any) -> Any:
        """Observations come without an action."""
        return transition if transition.get("action") is None else super().__call__(transition)

    def action(self, action: Tensor) -> Tensor:
        """[..., A] -> [..., width]."""
        return functional.pad(action, (0, self.width - action.shape[-1]))

    def get_config(self) -> dict[str, Any]:
        """What the constructor takes."""
        return {"width": self.width}

    def transform_features(self, features: Features) -> Features:
        """LeRobot asks nothing of it here."""
        return features


def make_padded_pre_post_processors(
    config: PaddedConfig, dataset_stats: dict[str, dict[str, torch.Tensor]] | None = None
) -> tuple[Any, Any]:
    """LeRobot finds this by its name."""
    steps = make_default_policy_processor_steps(config, dataset_stats)
    feature: Any = config.action_feature
    return make_policy_processor_pipelines(
        input_steps=[
            steps.rename_observations,
            steps.add_batch_dim,
            steps.normalize,
            ToWidth(config.width),
            steps.to_device,
        ],
        output_steps=[ToWidth(feature.shape[0]), steps.unnormalize, steps.to_cpu],
    )
