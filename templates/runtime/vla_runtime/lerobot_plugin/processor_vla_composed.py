"""LeRobot's own processors for a composed VLA: rename, batch, device, normalise; and back."""

from typing import Any

import torch
from lerobot.processor import PolicyAction, PolicyProcessorPipeline, make_default_pre_post_processors

from .configuration_vla_composed import VLAComposedConfig


def make_vla_composed_pre_post_processors(
    config: VLAComposedConfig, dataset_stats: dict[str, dict[str, torch.Tensor]] | None = None, **kwargs: Any
) -> tuple[
    PolicyProcessorPipeline[dict[str, Any], dict[str, Any]], PolicyProcessorPipeline[PolicyAction, PolicyAction]
]:
    """LeRobot's default pipelines with the policy's normalisation modes and the dataset's statistics."""
    return make_default_pre_post_processors(config, dataset_stats, normalizer_device=config.device)
