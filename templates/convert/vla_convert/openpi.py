"""A checkpoint of openpi, in either of its layouts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor
from vla_runtime.errors import UserError

from .keys import (
    EMBEDDING,
    HEAD,
    Shape,
    Source,
    Zeros,
    jax_sizes,
    openpi_name,
    openpi_tensors,
    sources,
    tensor_shapes,
    torch_sizes,
)
from .orbax import OrbaxParams
from .safetensors_io import NAMES, TensorFile
from .sizes import Sizes

UNFINISHED = ".orbax-checkpoint-tmp"


@dataclass(frozen=True)
class Openpi:
    """An opened checkpoint; its tensors are read when they are asked for.

    Attributes:
        directory: of the checkpoint, above `params` or with `model.safetensors`.
        layout: written by openpi's JAX code, or by its PyTorch code.
        sizes: of the model.
        dtypes: names of its tensors' dtypes.
        bytes: size of its tensors.
        horizon: `action_horizon` of a `config.json` beside the weights, or None.
        weights: the opened store or file.
    """

    directory: Path
    layout: Literal["jax", "pytorch"]
    sizes: Sizes
    dtypes: set[str]
    bytes: int
    horizon: int | None
    weights: OrbaxParams | TensorFile

    @property
    def leaves(self) -> int:
        """Tensors as they are stored."""
        return len(self.weights.leaves if isinstance(self.weights, OrbaxParams) else self.weights.entries)

    def tensors(self) -> Iterator[tuple[str, Tensor | None]]:
        """LeRobot's names with their tensors, one leaf of the checkpoint after the other; None for one that the rules make zero."""
        if isinstance(self.weights, TensorFile):
            for target in tensor_shapes(self.sizes):
                yield target, self.weights.read(openpi_name(HEAD if target == EMBEDDING else target))
            return
        by_leaf: dict[str, list[tuple[str, Source]]] = {}
        for target, source in sources(self.sizes).items():
            if isinstance(source, Zeros):
                yield target, None
            else:
                by_leaf.setdefault(source.leaf, []).append((target, source))
        for leaf, targets in by_leaf.items():
            if targets[0][1].layer is None:
                whole = self.weights.whole(leaf)
                yield from ((target, source.take(whole)) for target, source in targets)
                del whole
                continue
            for index, layer in self.weights.layers(leaf):
                yield from ((target, source.take(layer)) for target, source in targets if source.layer == index)


def open_openpi(directory: Path) -> Openpi:
    """Opens a checkpoint by what lies in its directory, every tensor accounted for by name and shape.

    Raises:
        UserError: it is no checkpoint of pi0 or pi0.5, is cut off, or holds what the map does not know.
    """
    if not directory.is_dir():
        raise UserError(f"{directory} is not there, or is no directory.")
    if UNFINISHED in directory.resolve().name:
        raise UserError(f"{directory} was never finished: orbax renames it when it is complete. Take an earlier step.")
    if directory.name == "params" and (directory.parent / "assets").is_dir():
        directory = directory.parent
    if (directory / "model.safetensors").is_file():
        return _open_pytorch(directory)
    if not (directory / "params").is_dir():
        raise UserError(_foreign(directory))
    params = OrbaxParams(directory / "params")
    sizes = jax_sizes(params.leaves, str(params.directory))
    return Openpi(directory, "jax", sizes, params.dtypes, params.bytes, None, params)


def _open_pytorch(directory: Path) -> Openpi:
    told = _config(directory)
    if "type" in told:
        raise UserError(
            f"{directory} is a LeRobot policy directory (type {told['type']}), not one of openpi's. Write lerobot:{directory}."
        )
    file = TensorFile(directory / "model.safetensors")
    shapes: dict[str, Shape] = {name: entry.shape for name, entry in file.entries.items()}
    sizes = torch_sizes(shapes, str(file.path), prefix="")
    assert set(shapes) == set(openpi_tensors(sizes))
    horizon = told.get("action_horizon")
    if horizon is not None and (not isinstance(horizon, int) or horizon < 1):
        raise UserError(
            f"{directory / 'config.json'} says action_horizon {horizon!r}; a whole number above zero is meant."
        )
    width = told.get("action_dim", sizes.action_dim)
    if width != sizes.action_dim:
        raise UserError(f"{directory / 'config.json'} says action_dim {width}, the weights {sizes.action_dim}.")
    dtypes = {
        {"F32": "float32", "BF16": "bfloat16"}.get(NAMES[entry.dtype], NAMES[entry.dtype])
        for entry in file.entries.values()
    }
    total = sum(entry.bytes for entry in file.entries.values())
    return Openpi(directory, "pytorch", sizes, dtypes, total, horizon, file)


def _config(directory: Path) -> dict:
    file = directory / "config.json"
    if not file.is_file():
        return {}
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is no JSON ({error}).") from error
    return told if isinstance(told, dict) else {}


def _foreign(directory: Path) -> str:
    steps = sorted(
        (path.name for path in directory.iterdir() if (path / "params").is_dir()), key=lambda name: (len(name), name)
    )
    if steps:
        return f"{directory} holds checkpoints of {', '.join(steps)}. Name one of them: openpi:{directory / steps[-1]}"
    there = ", ".join(sorted(path.name for path in directory.iterdir())[:8]) or "nothing"
    return f"{directory} is no checkpoint of openpi: neither params/ (JAX) nor model.safetensors (PyTorch) is in it. There is: {there}."
