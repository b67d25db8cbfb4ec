"""Plans, trackers, errors and preflight, each by itself."""

import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow
import pyarrow.parquet
import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from vla_runtime import preflight
from vla_runtime.errors import UserError, _about_waiting, explanation
from vla_runtime.plans import compare, describe
from vla_runtime.run import Run
from vla_runtime.tracking import JsonLines, TensorBoard, WandB

# Plans


def pipeline(**changes: Any) -> dict[str, Any]:
    """A small plan; `changes` replaces values by dotted path with `__` for the dots."""
    values: dict[str, Any] = {
        "name": "p",
        "modules": [
            {
                "name": "vision",
                "lr": 1e-4,
                "freeze": [{"from": 0, "trains": "none"}, {"from": 75, "trains": "all", "rewarm": 0}],
            },
            {"name": "action", "lr": 1e-3, "freeze": [{"from": 0, "trains": "all"}]},
        ],
        "hardware": {"kind": "cpus", "processes": 2},
        "parallel": {"kind": "fsdp2", "world": 2},
        "training": {"updates": 100, "globalBatch": 8, "microBatch": 4, "schedule": {"kind": "cosine", "warmup": 3}},
        "datasets": [{"name": "a", "weight": 1}],
        "track": [],
    }
    for path, value in changes.items():
        target: Any = values
        *steps, last = path.split("__")
        for step in steps:
            target = target[int(step) if step.isdigit() else step]
        target[last] = value
    return values


def differing(now: dict[str, Any], *accepted: str) -> list[str]:
    return [difference.path for difference in compare(pipeline(), now, accepted)]


def test_what_may_change() -> None:
    assert differing(pipeline()) == []
    assert differing(pipeline(training__updates=200)) == []
    assert differing(pipeline(track=[{"kind": "tensorboard"}], hardware={"kind": "gpus"}, parallel__world=8)) == []
    assert differing(pipeline(training__microBatch=1)) == []


def test_shares_of_the_run_may_move_with_its_length_only() -> None:
    longer = pipeline(training__updates=200, training__schedule__warmup=6, modules__0__freeze__1__from=150)
    assert differing(longer) == []
    assert differing(pipeline(training__updates=200, training__schedule__warmup=20)) == ["training.schedule.warmup"]
    assert differing(pipeline(modules__0__freeze__1__from=80)) == ["modules.vision.freeze.1.from"]


def test_everything_else_is_refused_by_name() -> None:
    assert differing(pipeline(training__updates=50)) == ["training.updates"]
    assert differing(pipeline(parallel__kind="ddp")) == ["parallel.kind"]
    assert differing(pipeline(modules__1__lr=1e-4)) == ["modules.action.lr"]
    assert differing(pipeline(datasets=[{"name": "b", "weight": 1}])) == [
        "datasets.a.name", "datasets.a.weight", "datasets.(order)", "datasets.b.name", "datasets.b.weight",
    ]  # fmt: skip


def test_accepted_by_name() -> None:
    now = pipeline(modules__1__lr=1e-4, training__globalBatch=16)
    assert differing(now, "modules.action.lr") == ["training.globalBatch"]
    assert differing(now, "modules.action", "training.globalBatch") == []
    with pytest.raises(
        UserError, match="nothing under that name differs from the checkpoint. What differs: modules.action.lr"
    ):
        compare(pipeline(), pipeline(modules__1__lr=1e-4), ["modules.action.lr", "modules.vision.lr"])


def test_long_lists_of_differences_are_cut() -> None:
    found = compare(pipeline(datasets=[]), pipeline(datasets=[{"name": f"d{i}"} for i in range(40)]), [])
    assert "and " in describe(found, Path("step-1")).splitlines()[-2]


# Trackers


def test_metrics_after_the_checkpoint_are_cut_and_so_is_a_torn_line(tmp_path: Path) -> None:
    metrics = JsonLines()
    metrics.open(tmp_path, 0, {})
    for update in range(5):
        metrics.write({"update": update, "loss": float("nan") if update == 1 else 0.5})
    metrics.close()
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    again = JsonLines()
    again.open(tmp_path, 3, {})
    assert again.position() == len(b"".join(whole.splitlines(keepends=True)[:3]))
    again.write({"update": 3, "loss": 0.25})
    again.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"update": 0, "loss": 0.5}, {"update": 1, "loss": None}, {"update": 2, "loss": 0.5}, {"update": 3, "loss": 0.25},
    ]  # fmt: skip


def test_metrics_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(UserError, match="line 1 of .* is no record of a run"):
        JsonLines().open(tmp_path, 3, {})


def test_tensorboard_hides_updates_that_are_made_again(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    record = {"loss": 0.5, "lr": {"vision": 1e-3}, "skipped": 0}
    for done, updates in ((0, range(4)), (2, range(2, 5))):
        tracker = TensorBoard()
        tracker.check()
        tracker.open(tmp_path, done, {})
        for update in updates:
            tracker.write({"update": update, **record, "loss": float(done + update)})
        tracker.close()
    seen = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in seen.Scalars("loss")] == [
        (0, 0.0),
        (1, 1.0),
        (2, 4.0),
        (3, 5.0),
        (4, 6.0),
    ]
    assert [event.step for event in seen.Scalars("lr/vision")] == [0, 1, 2, 3, 4]


def test_wandb_without_a_key_is_refused_and_offline_is_a_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "from vla_runtime.tracking import WandB; WandB('p').check(); print('fine')"
    environment = {
        "PYTHONPATH": str(Path(preflight.__file__).parents[1]),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }

    def check(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program], env={**environment, **more}, text=True, capture_output=True
        )

    assert "this machine has no API key. Set WANDB_API_KEY or run `wandb login`" in check().stderr
    assert check(WANDB_MODE="offline").stdout == "fine\n"
    assert check(WANDB_API_KEY="0" * 40).stdout == "fine\n"

    monkeypatch.setenv("WANDB_MODE", "offline")
    tracker = WandB("p")
    tracker.open(tmp_path, 0, {"a": 1})
    tracker.write({"update": 0, "loss": 0.5, "lr": {"vision": 1e-3}})
    tracker.close()
    assert list(tmp_path.glob("wandb/offline-run-*"))


# Errors


def test_a_full_disk_is_explained() -> None:
    text = explanation(OSError(28, "No space left on device", "runs/a/metrics.jsonl"))
    assert text is not None and text.startswith("the disk is full at runs/a/metrics.jsonl (No space left on device).")
    assert explanation(OSError(13, "Permission denied")) is None


def test_waits_are_named() -> None:
    text = _about_waiting(RuntimeError("Timed out waiting 600000ms for recv operation to complete"))
    assert "collective 600 s" in text and "checkpoint 3600 s" in text
    assert _about_waiting(RuntimeError("shape mismatch")) == ""


# What the checkpoints rely on in torch


def test_torchs_stager_copies_once() -> None:
    stager = DefaultStager(StagingOptions(False, False, False, False))
    state = {"a": torch.ones(3)}
    copy = stager.stage(state)
    state["a"].add_(1)
    assert isinstance(copy, dict) and copy["a"].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(KeyError):  # where this no longer fails, Checkpoints may keep one stager
        stager.stage(state)


def test_torchs_checkpoint_exception_is_no_exception() -> None:
    assert not issubclass(CheckpointException, Exception)


# Preflight

INFO: dict[str, Any] = {
    "codebase_version": "v3.0",
    "fps": 80,
    "total_episodes": 1,
    "total_frames": 10,
    "features": {
        "observation.image": {"dtype": "image", "shape": [64, 64, 3]},
        "observation.state": {"dtype": "float32", "shape": [4]},
        "action": {"dtype": "float32", "shape": [4]},
    },
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """What preflight reads of a run."""

    def agree(error: str | None) -> None:
        if error is not None:
            raise UserError(error)

    fake = SimpleNamespace(
        findings=[],
        rank=0,
        local_rank=0,
        world=2,
        directory=tmp_path,
        device=torch.device("cpu"),
        agree=agree,
        say=print,
    )
    return cast(Run, fake)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of ten frames, without pictures."""
    path = tmp_path / "data"
    for part in ("meta/episodes/chunk-000", "data/chunk-000"):
        (path / part).mkdir(parents=True)
    (path / "meta/info.json").write_text(json.dumps(INFO))
    (path / "meta/stats.json").write_text("{}")
    table = pyarrow.table({"index": list(range(10))})
    pyarrow.parquet.write_table(table, path / "data/chunk-000/file-000.parquet")
    pyarrow.parquet.write_table(table.slice(0, 1), path / "meta/episodes/chunk-000/file-000.parquet")
    return path


def look(run: Run, folder: Path, **changes: Any) -> list[str]:
    """The findings about a dataset, without its name."""
    declared: dict[str, Any] = {
        "features": ["observation.image", "observation.state", "action"], "action": "action", "action_dim": 4,
        "state": "observation.state", "state_dim": 4, "fps": 80.0, "fingerprint": None,
    }  # fmt: skip
    run.findings.clear()
    preflight.dataset(run, str(folder), **{**declared, **changes})
    return [finding.removeprefix(f"dataset {folder}: ") for finding in run.findings]


def test_a_dataset_as_declared(run: Run, folder: Path) -> None:
    def sha(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    expected = sha(f"{sha(json.dumps(INFO).encode())}\n{sha(b'{}')}\n".encode())
    assert look(run, folder, fingerprint=expected) == []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"features": ["observation.image", "observation.wrist"]},
            "the feature observation.wrist is missing; it has observation.image, ",
        ),
        ({"action_dim": 7}, "action has shape [4], the model expects [7]"),
        ({"state_dim": 8}, "observation.state has shape [4], the model expects [8]"),
        ({"fps": 30.0}, "it has 80 frames per second, the plan says 30"),
        ({"fingerprint": "0" * 64}, "it is not the dataset in vla.lock.json"),
    ],
    ids=["camera", "action", "state", "fps", "fingerprint"],
)
def test_a_dataset_that_is_not_as_declared(run: Run, folder: Path, changes: dict[str, Any], finding: str) -> None:
    (found,) = look(run, folder, **changes)
    assert found.startswith(finding)


def rewrite(**changes: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "meta/info.json").write_text(json.dumps({**INFO, **changes}))

    return write


def truncate(name: str) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:-20])

    return cut


@pytest.mark.parametrize(
    ("break_it", "finding"),
    [
        (
            truncate("data/chunk-000/file-000.parquet"),
            "data/chunk-000/file-000.parquet is cut off, or the recording was not finalised (",
        ),
        (truncate("meta/episodes/chunk-000/file-000.parquet"), "meta/episodes/chunk-000/file-000.parquet is cut off"),
        (rewrite(total_frames=12), "data/ has 10 frames, meta/info.json says 12"),
        (rewrite(total_episodes=0), "it is empty: no episode was recorded"),
        (rewrite(codebase_version="v2.1"), "it has format v2.1, not v3"),
        (truncate("meta/info.json"), "meta/info.json is no JSON"),
        (lambda folder: (folder / "meta/info.json").unlink(), "there is no meta/info.json"),
    ],
    ids=["data", "episodes", "frames", "empty", "version", "info", "missing"],
)
def test_a_broken_dataset(run: Run, folder: Path, break_it: Callable[[Path], None], finding: str) -> None:
    break_it(folder)
    (found,) = look(run, folder)
    assert found.startswith(finding)


def safetensors(path: Path, size: int = 8) -> None:
    """A file with one fp32 tensor of two values, cut to `size` bytes of data."""
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * size)


def test_weights_headers(run: Run, tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors")
    preflight.weights(run, str(tmp_path))
    assert run.findings == []
    safetensors(tmp_path / "model.safetensors", size=3)
    preflight.weights(run, str(tmp_path))
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    preflight.weights(run, str(tmp_path))
    (tmp_path / "model-1.safetensors").write_bytes(b"\0" * 4)
    preflight.weights(run, str(tmp_path))
    preflight.weights(run, str(tmp_path / "nowhere"))
    texts = [finding.partition(": ")[2] for finding in run.findings]
    assert texts[0].startswith("model.safetensors is cut off: it has ")
    assert texts[1] == "model-1.safetensors is missing; copy it again."
    assert texts[3] == "model-1.safetensors is cut off (4 bytes); copy it again."
    assert texts[-1].startswith("there is no safetensors file")


def test_everything_is_reported_together(run: Run, folder: Path) -> None:
    preflight.versions(run, {"torch": "2.10", "no-such-package": "1.0", "numpy": "2"})
    preflight.world(run, processes=4)
    preflight.devices(run, gpu="H100", memory_bytes=1)  # this run computes on the CPU
    preflight.disk_space(run, bytes_needed=1 << 62)
    with pytest.raises(UserError) as caught:
        preflight.report(run)
    lines = str(caught.value).splitlines()
    assert lines[0] == "this machine is not ready for the run:"
    assert [line.split()[0] for line in lines[1:]] == ["torch", "no-such-package", "the", str(run.directory)]
    assert run.findings == []
