"""A training checkpoint as a whole model on the CPU, adapters merged."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..checkpoints import complete_checkpoints, read_tensors, verify
from ..errors import UserError
from ..lora import merged_state_dict
from ..partition import TORCH_DTYPES, DType, Module


@dataclass
class PackArguments:
    """What pack.py was called with."""

    checkpoint: Path
    out: Path


@dataclass
class Packable[Model: nn.Module]:
    """A checkpoint that is ready to be packed.

    Attributes:
        path: the checkpoint's directory.
        update: updates after which it was written.
        model: what model.py builds, on the meta device.
        weights: the model's own keys -> tensors on the CPU in the dtype they were trained in; adapters are merged. Keys of one tied
            weight share one tensor.
        normalization: dataset -> feature -> arguments of `normalizer`.
        plan: plan.json of the run.
        reference: raw inputs and the trainer's actions (see `vla_runtime.checkpoints`).
        reference_datasets: the dataset of each sample of the reference.
    """

    path: Path
    update: int
    model: Model
    weights: dict[str, Tensor]
    normalization: dict[str, dict[str, Any]]
    plan: dict[str, Any]
    reference: dict[str, Tensor]
    reference_datasets: list[str]

    @property
    def crop(self) -> float | None:
        """Share of the area that training's random crop kept."""
        augment = self.plan["pipeline"]["augment"]
        return None if augment is None else augment["crop"]

    def exported(self, dtype: DType) -> dict[str, Tensor]:
        """The weights in the dtype of a package; integers and booleans stay as they are, tied weights stay one tensor."""
        target = TORCH_DTYPES[dtype]
        made: dict[int, Tensor] = {}
        for tensor in self.weights.values():
            if id(tensor) not in made:
                made[id(tensor)] = (tensor.to(target) if tensor.is_floating_point() else tensor).contiguous()
        return {name: made[id(tensor)] for name, tensor in self.weights.items()}


def pack_arguments(run: str, out: str) -> PackArguments:
    """Reads the command line of pack.py; without `--checkpoint` it is the newest complete one of the run.

    Raises:
        UserError: there is no complete checkpoint.
    """
    parser = argparse.ArgumentParser(
        description="Packs a checkpoint and compares every package with the trainer's own actions."
    )
    parser.add_argument(
        "--checkpoint", type=Path, default=None, help=f"a directory below {run}/checkpoints (the newest)"
    )
    parser.add_argument("--out", type=Path, default=Path(out), help=f"where the packages go ({out})")
    options = parser.parse_args()
    checkpoint = options.checkpoint
    if checkpoint is None:
        found = complete_checkpoints(Path(run) / "checkpoints")
        if not found:
            raise UserError(f"{run}/checkpoints holds no complete checkpoint. Train first: `bash launch/local.sh`.")
        checkpoint = found[0]
    return PackArguments(checkpoint, options.out)


def open_checkpoint[Model: nn.Module](
    path: Path, build_model: Callable[[], Model], modules: Sequence[Module]
) -> Packable[Model]:
    """Reads a checkpoint, one tensor after the other, and merges its adapters.

    Args:
        path: the checkpoint's directory.
        build_model: of model.py; used on the meta device to know which keys there have to be.
        modules: of train.py; they say which layers have adapters.

    Raises:
        UserError: the checkpoint is damaged, or its keys or shapes are not the model's.
    """
    if not path.is_dir():
        raise UserError(f"there is no checkpoint {path}.")
    update = verify(path)
    with torch.device("meta"):
        model = build_model()
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    weights = merged_state_dict(dict(read_tensors(path)), modules)
    _restore_tied(model, weights)
    missing, unexpected = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    misshapen = [name for name in expected.keys() & weights.keys() if weights[name].shape != expected[name]]
    if missing or unexpected or misshapen:
        raise UserError(
            f"{path} does not hold the model of model.py: missing {missing[:5]}, unexpected {unexpected[:5]}, other shapes {misshapen[:5]}. "
            "Build the project again from the plan that trained it (plan.json in the checkpoint)."
        )
    rest = json.loads((path / "reference.json").read_text())
    return Packable(
        path=path,
        update=update,
        model=model,
        weights=weights,
        normalization=rest["normalization"],
        plan=json.loads((path / "plan.json").read_text()),
        reference=load_file(path / "reference.safetensors"),
        reference_datasets=list(rest["datasets"]),
    )


def _restore_tied(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Checkpoints hold a tied weight once; the model's state dict names it twice."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    for aliases in names.values():
        held = next((name for name in aliases if name in weights), None)
        if held is not None:
            for alias in aliases:
                weights.setdefault(alias, weights[held])
