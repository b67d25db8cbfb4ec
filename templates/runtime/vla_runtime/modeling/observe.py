"""Raw observations to a batch of the model: the same for the HF package, the LeRobot plugin and whoever serves the policy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .batch import Batch
from .images import evaluation_view
from .tokenization import PromptTokenizer, load_tokenizer

if TYPE_CHECKING:
    from .composed import VLAConfig


def prompt_tokenizer(config: "VLAConfig", directory: str | Path | None = None) -> PromptTokenizer:
    """The model's own way from an instruction to token ids; `directory` is where a package keeps its tokenizer."""
    return PromptTokenizer(
        load_tokenizer(config.language, directory),
        config.prompt,
        config.prompt_tokens,
        lower=config.prompt_lower,
        trailing=config.prompt_trailing_token,
    )


def image_size(config: "VLAConfig") -> int:
    """Pixels of the square picture that the loader hands to the model: what its largest tower reads."""
    return max(int(tower["image_size"]) for tower in config.vision)


def observation_batch(
    config: "VLAConfig",
    tokenizer: PromptTokenizer,
    images: Mapping[str, Tensor],
    instructions: Sequence[str],
    state: Tensor | None,
    *,
    crop: float | None,
    noise: Tensor | None = None,
    device: torch.device | str = "cpu",
) -> Batch:
    """A batch to predict from.

    Args:
        images: camera of the model -> uint8 [B, 3, H, W] at any size.
        instructions: B sentences.
        state: normalised proprioception [B, S]; None for a model that reads none.
        crop: share of the area that training's random crop kept; None where training did not crop.
        noise: [B, C, A] that flow matching starts from; drawn from torch's generator where it is None and needed.

    Raises:
        ValueError: a camera or the state is missing, or an instruction does not fit.
    """
    missing = [camera for camera in config.cameras if camera not in images]
    if missing:
        raise ValueError(f"missing pictures of the cameras {missing}; given are {sorted(images)}.")
    if config.state_dim and state is None:
        raise ValueError(f"this policy reads proprioception of width {config.state_dim}, but no state was given.")
    prompt, mask = tokenizer(instructions)
    if noise is None and config.action["decoder"] == "flowMatching":
        noise = torch.randn(len(instructions), config.chunk, config.action_dim)
    size = image_size(config)
    return Batch(
        images={camera: evaluation_view(images[camera], size, crop) for camera in config.cameras},
        prompt=prompt,
        prompt_mask=mask,
        state=state if config.state_dim else None,
        noise=noise,
    ).to(device)
