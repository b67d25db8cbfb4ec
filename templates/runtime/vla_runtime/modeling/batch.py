"""What one forward pass reads."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor


@dataclass
class Batch:
    """B samples on one device. C is the length of the action chunk, A the width of an action, S of the state, L of the prompt.

    Noise and time belong to the sample (drawn by the loader from seed, update and position), never to the rank or the forward.
    """

    images: dict[str, Tensor]
    """Camera slot of the model -> uint8, or float in [0, 1], [B, 3, H, W]. Towers resize and normalise."""
    prompt: Tensor
    """Token ids int64 [B, L]: the beginning token first, right padded."""
    prompt_mask: Tensor
    """bool [B, L]: true where `prompt` holds a token."""
    state: Tensor | None = None
    """Normalised proprioception, float [B, S]."""
    actions: Tensor | None = None
    """Normalised actions, float [B, C, A]. None when only predicting."""
    valid: Tensor | None = None
    """bool [B, C]: false where the chunk runs past the end of its episode. The first step is always valid."""
    noise: Tensor | None = None
    """Standard normal, float [B, C, A]; flow matching."""
    time: Tensor | None = None
    """float [B] in (0, 1]; flow matching while training."""
    positions: Tensor | None = None
    """int64 [B]: position of the sample in the global batch."""
    dataset: list[str] = field(default_factory=list)
    """Name of the dataset of each sample."""

    @property
    def size(self) -> int:
        """B."""
        return self.prompt.shape[0]

    def map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with `function` applied to every tensor."""
        changed: dict[str, object] = {"images": {camera: function(image) for camera, image in self.images.items()}}
        for name in ("prompt", "prompt_mask", "state", "actions", "valid", "noise", "time", "positions"):
            value = getattr(self, name)
            changed[name] = None if value is None else function(value)
        return replace(self, **changed)  # type: ignore[arg-type]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Batch":
        """The batch on another device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))
