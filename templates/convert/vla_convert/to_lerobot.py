"""openpi's checkpoint to LeRobot's policy directory."""

import json
from pathlib import Path
from typing import Any

import torch
from vla_runtime.errors import UserError

from .answers import Request, answers
from .batch import check_reference
from .jobs import Job
from .keys import tensor_shapes
from .lerobot_directory import carry_tokenizer, lerobot_config, notes, write_processors, write_readme
from .memory import peak, resident
from .openpi import Openpi, open_openpi
from .places import Progress, enough_room, published
from .policies import build
from .safetensors_io import TensorWriter, differences
from .sizes import Sizes
from .statistics import MODES, find_norm_stats, read_norm_stats


def openpi_to_lerobot(request: Request, partial: Path) -> tuple[Job, dict[str, Any]]:
    """Writes the directory and tells how to verify it.

    Raises:
        UserError: the source is no whole checkpoint of openpi, or something that it does not say was not said.
    """
    checkpoint = open_openpi(request.source)
    sizes = checkpoint.sizes
    published(sizes, request.other_sizes)
    asset_id, file = find_norm_stats(checkpoint.directory, request.asset_id)
    statistics = read_norm_stats(file, MODES[sizes.family])
    told = answers(request, sizes, statistics, checkpoint.dtypes, checkpoint.horizon)
    if request.reference is not None:
        check_reference(request.reference, sizes, told.chunk, told.cameras)

    config = lerobot_config(sizes, told)
    policy = build(config, sizes)
    tensors = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in policy.state_dict().items()}
    _same(sizes, tensors)
    libraries = resident()
    enough_room(partial, sum(torch.Size(shape).numel() * dtype.itemsize for dtype, shape in tensors.values()))
    print(
        f"{request.source}: {sizes.family} of openpi's {'JAX' if checkpoint.layout == 'jax' else 'PyTorch'} layout, "
        f"{checkpoint.leaves} tensors, {checkpoint.bytes:,} bytes, asset {asset_id}",
        flush=True,
    )
    config.save_pretrained(partial)
    if told.tokenizer is not None:
        carry_tokenizer(partial, told.tokenizer, sizes.vocabulary)  # before LeRobot's factory loads it
    write_processors(partial, config, sizes, statistics, told)
    _write_weights(partial / "model.safetensors", checkpoint, tensors)
    write_readme(partial, f"`{checkpoint.directory.resolve().name}` (asset `{asset_id}`)", sizes, told)
    facts = {
        "from": {
            "layout": f"openpi-{checkpoint.layout}",
            "name": checkpoint.directory.resolve().name,
            "tensors": checkpoint.leaves,
            "bytes": checkpoint.bytes,
            "assetId": asset_id,
        },
        "to": {"layout": "lerobot", "type": sizes.family, "tensors": len(tensors), "dtype": told.dtype},
        "cameras": told.cameras,
        "chunk": told.chunk,
        "tokenizerLength": told.tokenizer_length,
        "stateDim": told.state_dim,
        "actionDim": told.action_dim,
        "relativeActions": list(told.relative),
        "discreteState": told.discrete_state if sizes.family == "pi05" else None,
        "notes": notes(sizes, told),
        "memoryBytes": {"libraries": libraries, "peak": peak()},
    }
    (partial / "conversion.json").write_text(json.dumps(facts, indent=2) + "\n")
    job = Job(
        directory=str(partial),
        cameras=told.cameras,
        openpi=str(checkpoint.directory),
        reference=None if request.reference is None else str(request.reference),
        norm_stats=str(file),
        carried=told.tokenizer is not None,
        openpi_is_new=False,
    )
    return job, facts


def _same(sizes: Sizes, tensors: dict[str, tuple[torch.dtype, tuple[int, ...]]]) -> None:
    """The rules name exactly what LeRobot's class has; another release of LeRobot may have changed that."""
    lines = differences({name: shape for name, (_, shape) in tensors.items()}, tensor_shapes(sizes))
    if lines:
        from importlib.metadata import version

        raise UserError(
            "\n".join(
                [f"LeRobot {version('lerobot')} has other tensors than 0.6.1, for which the map was made.", *lines]
            )
        )


def _write_weights(path: Path, checkpoint: Openpi, tensors: dict[str, tuple[torch.dtype, tuple[int, ...]]]) -> None:
    progress = Progress(len(tensors), "tensors")
    with TensorWriter(path, tensors, {}) as writer:
        for name, tensor in checkpoint.tensors():
            if tensor is None:
                writer.zeros(name)
            else:
                writer.write(name, tensor)
            progress.step()
