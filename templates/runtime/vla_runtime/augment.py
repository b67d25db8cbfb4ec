"""Image augmentation whose randomness belongs to the sample: (seed, update, position in the global batch), never to a rank or worker."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torchvision.transforms.v2 import functional as transform

from .modeling.images import resize


@dataclass(frozen=True)
class Augmentation:
    """OpenVLA's order: random crop, brightness, contrast, saturation, hue (openvla, `vla/datasets/datasets.py`).

    crop: share of the area that the random square-preserving crop keeps, or None; evaluation takes the centre crop of that area.
    brightness, contrast, saturation: the factor is drawn from [1 - x, 1 + x].
    hue: the shift is drawn from [-x, x], in turns of the colour circle, at most 0.5.
    """

    crop: float | None = None
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0


def augment(
    image: Tensor, size: int | tuple[int, int], augmentation: Augmentation, random: np.random.Generator
) -> Tensor:
    """One augmented picture.

    Args:
        image: uint8 [3, H, W].
        size: pixels of the result: of a square, or height and width.
        augmentation: what to draw.
        random: the sample's own generator; the same number of draws is made whatever is switched off.

    Returns:
        uint8 [3, height, width].
    """
    top_share, left_share, brightness, contrast, saturation, hue = random.random(6)
    if augmentation.crop is not None:
        height, width = image.shape[-2:]
        h, w = max(1, round(height * augmentation.crop**0.5)), max(1, round(width * augmentation.crop**0.5))
        top, left = int(top_share * (height - h + 1)), int(left_share * (width - w + 1))
        image = image[..., top : top + h, left : left + w]
    image = resize(image, size)
    if augmentation.brightness:
        image = transform.adjust_brightness(image, _factor(augmentation.brightness, brightness))
    if augmentation.contrast:
        image = transform.adjust_contrast(image, _factor(augmentation.contrast, contrast))
    if augmentation.saturation:
        image = transform.adjust_saturation(image, _factor(augmentation.saturation, saturation))
    if augmentation.hue:
        image = transform.adjust_hue(image, augmentation.hue * (2.0 * hue - 1.0))
    return image


def _factor(width: float, draw: float) -> float:
    return max(0.0, 1.0 + width * (2.0 * draw - 1.0))
