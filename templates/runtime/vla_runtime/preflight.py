"""Checks that only the target machine can make, before anything is allocated. They are collected, and reported together.

A check that finds something notes it on the run; `report` raises what all ranks have noted. Only `report` needs every rank.
"""

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch

from . import points
from .errors import UserError
from .run import Run


def versions(run: Run, wanted: Mapping[str, str]) -> None:
    """Compares installed packages with the versions that the project was built for.

    Args:
        wanted: package -> leading components of its version: `{"torch": "2.11"}` is met by 2.11.0 and 2.11.1+cu130.
    """
    points.reached("preflight")
    for package, version in wanted.items():
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            run.findings.append(
                f"{package} is not installed; the project was built for {version}. Install requirements.lock (`vla env`)."
            )
            continue
        have, want = installed.partition("+")[0].split("."), version.split(".")
        if have[: len(want)] != want:
            run.findings.append(
                f"{package} is {installed}, the project was built for {version}. Install requirements.lock (`vla env`)."
            )


def world(run: Run, *, processes: int) -> None:
    """Compares the number of processes with the plan's."""
    if run.world != processes:
        run.findings.append(f"the plan says {processes} processes, the launcher started {run.world}.")


def devices(run: Run, *, gpu: str | None, memory_bytes: int | None) -> None:
    """Compares this process's GPU with the declared one.

    Args:
        gpu: a part of the name that CUDA reports (`"H100"`); None on CPUs, and where any will do.
        memory_bytes: of the declared GPU; a tenth less is accepted, since drivers and ECC keep some.
    """
    if run.device.type != "cuda":
        return
    properties = torch.cuda.get_device_properties(run.device)
    if gpu is not None and gpu.lower() not in properties.name.lower():
        run.findings.append(
            f"rank {run.rank} computes on {properties.name}, the plan says {gpu}. Change hardware in pipeline.ts and build again."
        )
    if memory_bytes is not None and properties.total_memory < 0.9 * memory_bytes:
        run.findings.append(
            f"the GPU of rank {run.rank} has {_gib(properties.total_memory)}, the plan counts on {_gib(memory_bytes)}."
        )


def disk_space(run: Run, *, bytes_needed: int) -> None:
    """Looks whether the checkpoints that are kept, and the one being written, fit on the disk of the run's directory."""
    free = shutil.disk_usage(run.directory).free
    if run.rank == 0 and free < bytes_needed:
        run.findings.append(
            f"{run.directory.absolute()} has {_gib(free)} free, the checkpoints need {_gib(bytes_needed)}. Make room, or lower keep in checkpoint."
        )


def dataset(
    run: Run,
    root: str,
    *,
    features: Sequence[str],
    action: str,
    action_dim: int | None,
    state: str | None,
    state_dim: int | None,
    fps: float | None,
    fingerprint: str | None,
) -> None:
    """Compares a LeRobot v3 dataset's folder with what the project was built for, and looks at every Parquet footer.

    Args:
        root: the dataset's folder.
        features: that must be there.
        action: the action's feature.
        action_dim: its width; None where the build did not know it.
        state: the feature of proprioception, or None.
        state_dim: its width.
        fps: frames per second.
        fingerprint: of meta/info.json and meta/stats.json, as in vla.lock.json.
    """
    if run.local_rank != 0:
        return
    folder = Path(root)

    def found(what: str) -> None:
        run.findings.append(f"dataset {root}: {what}")

    try:
        info: dict[str, Any] = json.loads((folder / "meta" / "info.json").read_bytes())
    except FileNotFoundError:
        found(f"there is no meta/info.json (seen from {Path.cwd()}); copy or record the dataset there")
        return
    except ValueError:
        found("meta/info.json is no JSON; copy the dataset again")
        return
    version = str(info.get("codebase_version"))
    if not version.removeprefix("v").startswith("3."):
        found(f"it has format {version}, not v3; convert it with LeRobot's convert_dataset_v21_to_v30")
        return
    if not info.get("total_episodes") or not info.get("total_frames"):
        found("it is empty: no episode was recorded, or the recording was not finalised")
        return
    has: dict[str, Any] = info.get("features", {})
    for feature in features:
        if feature not in has:
            found(f"the feature {feature} is missing; it has {', '.join(has)}")
    for feature, width in ((action, action_dim), (state, state_dim)):
        if feature in has and width is not None and list(has[feature]["shape"]) != [width]:
            found(f"{feature} has shape {list(has[feature]['shape'])}, the model expects [{width}]")
    if fps is not None and float(info.get("fps", 0)) != fps:
        found(f"it has {info.get('fps')} frames per second, the plan says {fps:g}")
    if fingerprint is not None and fingerprint != fingerprint_of(folder):
        found(
            "it is not the dataset in vla.lock.json (meta/info.json or meta/stats.json differ); run `vla lock` and build again"
        )
    _parquet(folder, int(info["total_frames"]), found)


def fingerprint_of(folder: Path) -> str:
    """The fingerprint of a dataset's metadata, as `vla lock` computes it."""
    hashes = [
        hashlib.sha256(path.read_bytes()).hexdigest() if (path := folder / "meta" / name).is_file() else ""
        for name in ("info.json", "stats.json")
    ]
    return hashlib.sha256("".join(f"{hash}\n" for hash in hashes).encode()).hexdigest()


def weights(run: Run, source: str) -> None:
    """Looks whether the safetensors files of a local directory (or one file) are whole, from their headers.

    Args:
        source: directory or file; what the loader fetches from a hub is checked when it is there.
    """
    if run.local_rank != 0:
        return
    path = Path(source)
    index = path / "model.safetensors.index.json"
    if path.is_file():
        files = [path]
    elif index.is_file():
        try:
            files = sorted({path / name for name in json.loads(index.read_bytes())["weight_map"].values()})
        except (ValueError, KeyError):
            run.findings.append(f"weights {source}: {index.name} is no index of safetensors files; copy it again.")
            return
    else:
        files = sorted(path.glob("*.safetensors"))
    if not files:
        run.findings.append(f"weights {source}: there is no safetensors file (seen from {Path.cwd()}).")
    for file in files:
        what = _torn(file)
        if what is not None:
            run.findings.append(f"weights {source}: {file.name} {what}; copy it again.")


def report(run: Run) -> None:
    """Raises what the checks have found on any rank, all together. Every rank must call it, after the last check.

    Raises:
        UserError: the findings, one per line.
    """
    findings, run.findings = run.findings, []
    try:
        run.agree("\n".join(findings) or None)
    except UserError as error:
        raise UserError(f"this machine is not ready for the run:\n{error}") from None
    run.say("preflight: nothing found.")


def _parquet(folder: Path, frames: int, found: Callable[[str], None]) -> None:
    files = sorted((folder / "data").rglob("*.parquet"))
    rows = 0
    whole = True
    for file in (*files, *sorted((folder / "meta").rglob("*.parquet"))):
        try:
            count = pyarrow.parquet.read_metadata(file).num_rows
        except (pyarrow.ArrowInvalid, OSError) as error:
            whole = False
            reason = str(error).splitlines()[0]
            found(
                f"{file.relative_to(folder)} is cut off, or the recording was not finalised ({reason}); copy or record it again"
            )
        else:
            rows += count if file in files else 0
    if whole and rows != frames:
        found(f"data/ has {rows} frames, meta/info.json says {frames}; files are missing or were added")


def _torn(file: Path) -> str | None:
    """What is wrong with a safetensors file (https://huggingface.co/docs/safetensors: 8 bytes length, JSON header, data)."""
    if not file.is_file():
        return "is missing"
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > size - 8:
            return f"is cut off ({size} bytes)"
        try:
            header: dict[str, Any] = json.loads(opened.read(length))
            end = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
        except (ValueError, KeyError, TypeError):
            return "is no safetensors file"
    return None if size == 8 + length + end else f"is cut off: it has {size} bytes, its header says {8 + length + end}"


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
