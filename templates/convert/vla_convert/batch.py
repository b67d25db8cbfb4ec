"""Batches that two layouts of one model are compared on, and the form in which they are stored."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vla_runtime.errors import UserError

from .sizes import CAMERAS, Sizes

STEPS = 10
"""Denoising steps: openpi's and LeRobot's default."""
SEED = 20_240_510


@dataclass(frozen=True)
class ModelBatch:
    """What the model itself sees: after preprocessing, before anything is unnormalised.

    Attributes:
        images: openpi's camera -> float32 [B, H, W, 3] in [-1, 1].
        masks: openpi's camera -> bool [B], whether the picture is there.
        tokens: int64 [B, L].
        token_mask: bool [B, L].
        state: float32 [B, S], normalised and padded.
        noise: float32 [B, C, A].
        actions: float32 [B, C, A], what the model returned; None before it was asked.
        steps: denoising steps.
    """

    images: dict[str, Tensor]
    masks: dict[str, Tensor]
    tokens: Tensor
    token_mask: Tensor
    state: Tensor
    noise: Tensor
    actions: Tensor | None = None
    steps: int = STEPS


def fixed_batch(sizes: Sizes, chunk: int, tokenizer_length: int, cameras: list[str]) -> ModelBatch:
    """Two samples drawn from a fixed seed; the second lacks the last camera where there are several, and has a shorter prompt."""
    draw = np.random.default_rng(SEED)
    side, padded = sizes.vision.image, sizes.state_dim or sizes.action_dim
    images = {
        camera: torch.from_numpy(draw.uniform(-1, 1, (2, side, side, 3)).astype(np.float32)) for camera in cameras
    }
    masks = {camera: torch.ones(2, dtype=torch.bool) for camera in cameras}
    if len(cameras) > 1:
        masks[cameras[-1]][1] = False
    words = torch.tensor([min(12, tokenizer_length), min(7, tokenizer_length)])
    return ModelBatch(
        images=images,
        masks=masks,
        tokens=torch.from_numpy(draw.integers(1, sizes.vocabulary, (2, tokenizer_length))),
        token_mask=torch.arange(tokenizer_length)[None] < words[:, None],
        state=torch.from_numpy(draw.standard_normal((2, padded)).astype(np.float32)),
        noise=torch.from_numpy(draw.standard_normal((2, chunk, sizes.action_dim)).astype(np.float32)),
    )


def save_batch(batch: ModelBatch, path: Path) -> None:
    """Writes a batch with its actions in the form that `read_batch` takes."""
    assert batch.actions is not None
    arrays: dict[str, Any] = {f"img_{camera}": image.numpy() for camera, image in batch.images.items()}
    cameras = [camera for camera in CAMERAS if camera in batch.images]
    np.savez(
        path,
        **arrays,
        mask=np.stack([batch.masks[camera].numpy() for camera in cameras]),
        tok=batch.tokens.numpy(),
        tokmask=batch.token_mask.numpy(),
        state=batch.state.numpy(),
        noise=batch.noise.numpy(),
        actions=batch.actions.numpy(),
        steps=np.asarray(batch.steps),
    )


def read_batch(path: Path) -> ModelBatch:
    """A stored batch.

    Arrays: `img_<camera>` float32 [B, H, W, 3] in [-1, 1], `mask` bool [cameras in openpi's order, B], `tok` and `tokmask` [B, L],
    `state` [B, S], `noise` and `actions` [B, C, A], and optionally `steps`; others are passed over.

    Raises:
        UserError: it is not there, an array is missing, or they are not of one batch.
    """
    if not path.is_file():
        raise UserError(f"--reference {path} is not there.")
    try:
        arrays: Any = np.load(path)
        if isinstance(arrays, np.ndarray):
            raise ValueError("it is a single array")
        with arrays:
            stored = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"--reference {path} is no .npz file of arrays ({error}).") from error
    lacking = [name for name in ("mask", "tok", "tokmask", "state", "noise", "actions") if name not in stored]
    cameras = [camera for camera in CAMERAS if f"img_{camera}" in stored]
    if lacking or not cameras:
        raise UserError(
            f"--reference {path} lacks {', '.join(lacking) or 'pictures'}: img_<camera>, mask, tok, tokmask, state, noise and actions "
            "are meant, as the model saw and returned them."
        )
    _one_batch(path, stored, cameras)

    def real(name: str) -> Tensor:
        return torch.from_numpy(stored[name].astype(np.float32))

    return ModelBatch(
        images={camera: real(f"img_{camera}") for camera in cameras},
        masks={camera: torch.from_numpy(stored["mask"][row].astype(bool)) for row, camera in enumerate(cameras)},
        tokens=torch.from_numpy(stored["tok"].astype(np.int64)),
        token_mask=torch.from_numpy(stored["tokmask"].astype(bool)),
        state=real("state"),
        noise=real("noise"),
        actions=real("actions"),
        steps=int(stored.get("steps", STEPS)),
    )


def _one_batch(path: Path, stored: dict[str, np.ndarray], cameras: list[str]) -> None:
    """Raises UserError where the arrays have other dimensions than they are meant to, or differ where they are of one batch."""
    if len(stored["mask"]) != len(cameras):
        raise UserError(f"--reference {path}: mask has {len(stored['mask'])} rows for {len(cameras)} cameras.")
    meant = {
        **{f"img_{camera}": 4 for camera in cameras},
        "mask": 2,
        "tok": 2,
        "tokmask": 2,
        "state": 2,
        "noise": 3,
        "actions": 3,
    }
    wrong = [name for name, count in meant.items() if stored[name].ndim != count]
    if wrong:
        name = wrong[0]
        raise UserError(f"--reference {path}: {name} has {stored[name].ndim} dimensions, {meant[name]} are meant.")
    for one, other in (("noise", "actions"), ("tok", "tokmask")):
        if stored[one].shape != stored[other].shape:
            raise UserError(
                f"--reference {path}: {one} is of shape {list(stored[one].shape)}, {other} of {list(stored[other].shape)}."
            )
    counts = {name: stored[name].shape[1 if name == "mask" else 0] for name in meant}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UserError(f"--reference {path}: its arrays are of different numbers of samples ({told}).")


def check_reference(path: Path, sizes: Sizes, chunk: int, cameras: dict[str, str]) -> None:
    """Raises UserError where a stored batch cannot be one of this model, before minutes are spent.

    Args:
        path: of the batch.
        sizes: of the model.
        chunk: actions per prediction.
        cameras: openpi's cameras that are mapped to a feature.
    """
    batch = read_batch(path)
    lost = [camera for camera in cameras if camera not in batch.images]
    if lost:
        raise UserError(f"--reference {path} has no pictures of {lost[0]}, which is mapped to {cameras[lost[0]]}.")
    side = sizes.vision.image
    shapes = {
        **{f"img_{camera}": (image.shape[1:], (side, side, 3)) for camera, image in batch.images.items()},
        "noise": (batch.noise.shape[1:], (chunk, sizes.action_dim)),
        **({} if sizes.state_dim is None else {"state": (batch.state.shape[1:], (sizes.state_dim,))}),
    }
    for name, (found, meant) in shapes.items():
        if tuple(found) != meant:
            raise UserError(
                f"--reference {path}: a sample of {name} is {list(found)}, and this model with a chunk of {chunk} has {list(meant)}."
            )
    highest = int(batch.tokens.max()) if batch.tokens.numel() else 0
    if highest >= sizes.vocabulary or int(batch.tokens.min()) < 0:
        raise UserError(f"--reference {path}: it has a token {highest}, and the model embeds {sizes.vocabulary}.")
