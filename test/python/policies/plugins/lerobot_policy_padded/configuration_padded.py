"""Its configuration."""

from dataclasses import dataclass, field

from lerobot.configs import NormalizationMode, PreTrainedConfig
from lerobot.optim import AdamWConfig


@PreTrainedConfig.register_subclass("padded")
@dataclass
class PaddedConfig(PreTrainedConfig):
    """Actions are padded to `width` in the model, and cut by the postprocessor."""

    chunk_size: int = 4
    n_action_steps: int = 4
    width: int = 8
    hidden: int = 16
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.MEAN_STD,
            "STATE": NormalizationMode.MEAN_STD,
            "ACTION": NormalizationMode.MIN_MAX,
        }
    )

    def get_optimizer_preset(self) -> AdamWConfig:
        """LeRobot's own."""
        return AdamWConfig(lr=1e-3)

    def get_scheduler_preset(self) -> None:
        """A constant rate."""
        return None

    def validate_features(self) -> None:
        """Something has to be seen."""
        if not self.image_features:
            raise ValueError("the padded policy needs a camera")

    @property
    def observation_delta_indices(self) -> None:
        """The present frame."""
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        """The chunk."""
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        """None."""
        return None
