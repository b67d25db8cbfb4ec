"""What one forward pass of a LeRobot policy reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .draws import PerSampleDraws


@dataclass
class PolicyBatch:
    """B samples on one device. C is the length of the action window, A the width of an action.

    What is drawn for a sample follows from (seed, update, position), never from the rank or the micro-batch.
    """

    tensors: dict[str, Any]
    """What LeRobot's preprocessor returned: `observation.*`, `action` [B, C, A], `action_is_pad` [B, C], tokens, `task`."""
    valid: Tensor
    """bool [B, C]: false where an action does not count: behind the end (or before the start) of the episode, if padding is masked."""
    positions: Sequence[int]
    """Position of each sample in the global batch."""
    update: int
    """The update for which the samples are drawn; -1 for samples that are not trained on."""
    seed: int
    """Of the run."""
    dataset: list[str] = field(default_factory=list)
    """Name of the dataset of each sample."""
    noise: Tensor | None = None
    """Fixed noise from which `predict` starts, [B, ...] as the policy's `predict_action_chunk` wants it."""
    seeds: Sequence[int] | None = None
    """A seed for each sample: `predict` draws all random numbers of a sample from a CPU generator with it."""

    @property
    def size(self) -> int:
        """B."""
        return self.valid.shape[0]

    @property
    def action_dim(self) -> int:
        """A."""
        return self.tensors["action"].shape[-1]

    @property
    def counted(self) -> Tensor:
        """bool [B]: samples of which at least one action counts."""
        return self.valid.any(dim=1)

    def draws(self) -> PerSampleDraws:
        """The random numbers of the batch's samples, as a context for the policy's loss."""
        return PerSampleDraws(self.seed, self.update, self.positions)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "PolicyBatch":
        """The batch on another device."""

        def moved(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)(moved(item) for item in value)
            if isinstance(value, dict):
                return {name: moved(item) for name, item in value.items()}
            return value.to(device, non_blocking=non_blocking) if isinstance(value, Tensor) else value

        return replace(
            self,
            tensors=moved(self.tensors),
            valid=moved(self.valid),
            noise=moved(self.noise),
        )
