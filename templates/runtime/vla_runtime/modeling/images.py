"""What happens to a camera's picture before a vision tower sees it, the same in training, evaluation and every package."""

import torch
import torch.nn.functional as functional
from torch import Tensor


def center_crop(images: Tensor, share: float) -> Tensor:
    """Keeps the centre square root of `share` of each side: what evaluation does when training cropped randomly.

    A policy that was trained with a random crop of 90 % of the area and is asked on whole pictures sees everything 5 % too small
    (openvla/openvla issues 197 and 281).

    Args:
        images: [..., 3, H, W], any dtype.
        share: part of the area that stays, in (0, 1].

    Returns:
        [..., 3, h, w] with h = round(H sqrt(share)), w = round(W sqrt(share)).
    """
    height, width = images.shape[-2:]
    h, w = max(1, round(height * share**0.5)), max(1, round(width * share**0.5))
    top, left = (height - h) // 2, (width - w) // 2
    return images[..., top : top + h, left : left + w]


def resize(images: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Bilinear with anti-aliasing, without keeping the aspect ratio (Prismatic's `resize-naive`).

    Args:
        images: uint8 [..., 3, H, W].
        size: pixels of a square, or height and width.

    Returns:
        uint8 [..., 3, height, width].
    """
    target = (size, size) if isinstance(size, int) else size
    if images.shape[-2:] == target:
        return images
    lead = images.shape[:-3]
    flat = images.reshape(-1, *images.shape[-3:]).to(torch.float32)
    out = functional.interpolate(flat, size=target, mode="bilinear", align_corners=False, antialias=True)
    return out.round_().clamp_(0, 255).to(torch.uint8).reshape(*lead, *out.shape[1:])


def evaluation_view(images: Tensor, size: int, crop: float | None) -> Tensor:
    """The picture as the policy sees it outside of training: centre crop where training cropped, then resized.

    Args:
        images: uint8 [..., 3, H, W].
        size: pixels of the model's input.
        crop: share of the area that training's random crop kept; None where it did not crop.

    Returns:
        uint8 [..., 3, size, size].
    """
    return resize(images if crop is None else center_crop(images, crop), size)
