"""Tokenizers and base models that a LeRobot policy reads by name, copied into a package so that it loads offline.

LeRobot reads these through the hub's cache, whatever lies beside the policy. So a package has a folder of the cache's own form, `hub/`,
that the variable HF_HUB_CACHE points to, and the tokenizer once more as a plain folder for everybody else.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from ..errors import UserError
from ..weights import locate

HUB = "hub"
OWNER = "vla-package"  # of the names that local directories get in a package
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".npz"}
_HIDDEN = {".git", ".cache", "__pycache__"}
_NO_ASSET = {"pretrained_path", "repo_id", "type", "task_key"}  # strings that name no file the policy reads
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Asset:
    """What a policy reads beside its own directory.

    written: the name in the policy's configuration or in a processor's: a hub id or a local directory.
    name: the hub id under which the package has it.
    source: where it lies on this machine.
    weights: whether the policy's constructor reads its weights too.
    """

    written: str
    name: str
    source: Path
    weights: bool


def find_assets(documents: Mapping[str, Any], tokenizer: str | None) -> list[Asset]:
    """The local directories and cached hub repositories that documents name.

    Args:
        documents: name -> content of config.json and of both processors.
        tokenizer: the directory that stands for the tokenizer's hub id, where one is declared.

    Raises:
        UserError: the declared tokenizer is not there.
    """
    config = documents.get("config.json", {})
    found: dict[str, Asset] = {}
    for key, text in _strings(documents):
        if key in _NO_ASSET:
            continue
        declared = key == "tokenizer_name" and tokenizer is not None
        source = locate(tokenizer, None) if declared and tokenizer is not None else _source(text)
        if source is None:
            continue
        without = (
            ("tokenizer" in key)
            or ("processor" in key)
            or (key == "vlm_model_name" and config.get("load_vlm_weights") is False)
        )
        known = found.get(text)
        weights = not without or (known is not None and known.weights)
        found[text] = Asset(
            text, known.name if known else _name(text, source), known.source if known else source, weights
        )
    return list(found.values())


def copy_assets(assets: list[Asset], package: Path) -> None:
    """Writes `hub/` in the form of the hub's cache: `models--<owner>--<name>/snapshots/<revision>/`, `main` being that revision."""
    for asset in assets:
        files = _files(asset.source, weights=asset.weights)
        if not files:
            raise UserError(f"{asset.source}, which the policy reads as {asset.written}, holds no files.")
        revision = _revision(asset.source, files)
        repository = package / HUB / f"models--{asset.name.replace('/', '--')}"
        snapshot = repository / "snapshots" / revision
        for file in files:
            target = snapshot / file.relative_to(asset.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        if not (snapshot / "config.json").exists():
            # transformers asks a repository for it even where only a tokenizer is read; from a directory it takes none for an empty one.
            (snapshot / "config.json").write_text("{}\n")
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(revision)


def renamed(document: Any, assets: list[Asset]) -> Any:
    """A document in which local directories have the names under which the package has them."""
    names = {asset.written: asset.name for asset in assets}
    if isinstance(document, dict):
        return {key: renamed(value, assets) for key, value in document.items()}
    if isinstance(document, list):
        return [renamed(value, assets) for value in document]
    return names.get(document, document) if isinstance(document, str) else document


def _strings(document: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string in a document with the key that it is the value of."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            yield from _strings(value, str(name))
    elif isinstance(document, list):
        for value in document:
            yield from _strings(value, key)
    elif isinstance(document, str):
        yield key, document


def _source(text: str) -> Path | None:
    """The directory that a name stands for on this machine; None where it is neither a directory nor a cached repository."""
    if os.sep in text and Path(text).is_dir():
        return Path(text)
    if _HUB_ID.fullmatch(text) is None:
        return None
    try:
        return Path(snapshot_download(text, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def _name(text: str, source: Path) -> str:
    if not Path(text).is_dir():
        return text
    repository = source.resolve().parent.parent.name  # of a snapshot in a hub's cache
    if repository.startswith("models--") and source.resolve().parent.name == "snapshots":
        return repository.removeprefix("models--").replace("--", "/", 1)
    return f"{OWNER}/{re.sub(r'[^A-Za-z0-9.-]+', '-', source.resolve().name).strip('-.')}"


def _files(directory: Path, *, weights: bool) -> list[Path]:
    files = [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not _HIDDEN.intersection(path.relative_to(directory).parts)
    ]
    if not weights:
        return [path for path in files if not _holds_weights(path)]
    if any(path.suffix == ".safetensors" for path in files):
        return [path for path in files if path.suffix == ".safetensors" or not _holds_weights(path) or _index(path)]
    return files


def _holds_weights(path: Path) -> bool:
    return path.suffix in _WEIGHTS or _index(path)


def _index(path: Path) -> bool:
    return path.name.endswith(".index.json")


def _revision(source: Path, files: list[Path]) -> str:
    """The snapshot's own commit, or for a local directory a hash of what is in it."""
    own = source.resolve().name
    if re.fullmatch(r"[0-9a-f]{40}", own):
        return own
    digest = hashlib.sha1(usedforsecurity=False)
    for file in files:
        digest.update(f"{file.relative_to(source)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
