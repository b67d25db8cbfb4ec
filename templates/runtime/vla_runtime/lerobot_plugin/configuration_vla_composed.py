"""Configuration of a composed VLA as a LeRobot policy."""

from dataclasses import dataclass, field
from typing import Any

from lerobot.configs import NormalizationMode
from lerobot.configs.policies import PreTrainedConfig
from lerobot.optim.optimizers import AdamWConfig


@PreTrainedConfig.register_subclass("vla_composed")
@dataclass
class VLAComposedConfig(PreTrainedConfig):
    """config.json of the policy directory.

    Attributes:
        vla: the architecture, as `VLAConfig.to_dict` gives it.
        cameras: the model's camera -> the image feature that feeds it.
        state: the feature of the proprioception, or None.
        crop: share of the area that training's random crop kept, or None.
        clip_state: the trainer clipped normalised states to [-1, 1].
        n_action_steps: actions of a chunk that are executed before the policy is asked again.
        normalization_mapping: mode per type of feature.
    """

    vla: dict[str, Any] = field(default_factory=dict)
    cameras: dict[str, str] = field(default_factory=dict)
    state: str | None = None
    crop: float | None = None
    clip_state: bool = False
    n_action_steps: int = 1
    normalization_mapping: dict[str, NormalizationMode] = field(default_factory=dict)

    @property
    def chunk_size(self) -> int:
        """Actions per chunk."""
        return int(self.vla["action"]["chunk"])

    @property
    def observation_delta_indices(self) -> None:
        """The policy sees the current observation only."""
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        """The chunk begins with the current action."""
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        """Rewards are not used."""
        return None

    def get_optimizer_preset(self) -> AdamWConfig:
        """For `lerobot-train`; the plan that trained this policy is in its directory (plan.json)."""
        return AdamWConfig(lr=1e-4, weight_decay=0.01)

    def get_scheduler_preset(self) -> None:
        """A constant learning rate."""
        return None

    def validate_features(self) -> None:
        """Raises ValueError when a camera, the state or the action is not among the features."""
        inputs, outputs = self.input_features or {}, self.output_features or {}
        wanted = [*self.cameras.values(), *([self.state] if self.state else [])]
        missing = [feature for feature in wanted if feature not in inputs]
        if missing:
            raise ValueError(
                f"the policy reads {missing}, but its input features are {sorted(inputs)}; rename them with --rename_map."
            )
        if "action" not in outputs:
            raise ValueError(f"the policy writes 'action', but its output features are {sorted(outputs)}.")
