"""The `hf` package: a directory that `AutoModel.from_pretrained(directory, trust_remote_code=True)` loads anywhere."""

import json
import shutil
from pathlib import Path

from huggingface_hub import save_torch_state_dict

from .. import modeling
from ..modeling.composed import ComposedVLA
from ..modeling.modeling_vla import VLAPretrainedConfig
from ..modeling.tokenization import load_tokenizer
from ..partition import TORCH_DTYPES, DType
from .card import write_card
from .checkpoint import Packable
from .compare import verify_package

MAX_SHARD = "5GB"


def hf(checkpoint: Packable[ComposedVLA], out: Path, *, dtype: DType) -> None:
    """Writes and verifies the package.

    Layout: config.json (architecture, normalisation with statistics), safetensors with an index when sharded, tokenizer files,
    dataset_statistics.json, the model's code as flat files, README.md, verification.json.

    Args:
        checkpoint: what is packed.
        out: directory; a package that is there is replaced.
        dtype: of the weights.

    Raises:
        UserError: the reloaded package does not act as the trainer did.
    """
    partial = fresh_directory(out)
    architecture = checkpoint.model.config.self_contained()
    config = VLAPretrainedConfig(
        vla=architecture.to_dict(),
        normalization=checkpoint.normalization,
        crop=checkpoint.crop,
        architectures=["VLAForActionPrediction"],
        dtype=TORCH_DTYPES[dtype],
        auto_map={"AutoConfig": "modeling_vla.VLAPretrainedConfig", "AutoModel": "modeling_vla.VLAForActionPrediction"},
    )
    config.save_pretrained(partial)
    save_torch_state_dict(checkpoint.exported(dtype), partial, max_shard_size=MAX_SHARD, metadata={"format": "pt"})
    load_tokenizer(architecture.language).save_pretrained(partial)
    (partial / "dataset_statistics.json").write_text(json.dumps(statistics_of(checkpoint), indent=2) + "\n")
    copy_modeling(partial)
    write_card(partial, checkpoint, kind="hf")
    replace(out, partial)
    verify_package(out, checkpoint, dtype)


def copy_modeling(directory: Path) -> None:
    """The model's code as flat files, which is all that transformers' remote code can import."""
    source = Path(next(iter(modeling.__path__)))
    for file in sorted(source.glob("*.py")):
        if file.name != "__init__.py":
            shutil.copyfile(file, directory / file.name)


def statistics_of(checkpoint: Packable[ComposedVLA]) -> dict[str, dict[str, dict[str, object]]]:
    """Statistics in OpenVLA's shape: dataset -> action / proprio -> statistic -> values, with the mask."""
    roles = {"action": "action", "state": "proprio"}
    return {
        dataset: {roles[role]: {**recipe["statistics"], "mask": recipe["mask"]} for role, recipe in recipes.items()}
        for dataset, recipes in checkpoint.normalization.items()
    }


def fresh_directory(out: Path) -> Path:
    """An empty directory beside `out`, so that a half-written package never has the package's name."""
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def replace(out: Path, partial: Path) -> None:
    """Puts the finished package in its place."""
    if out.exists():
        shutil.rmtree(out)
    partial.rename(out)
