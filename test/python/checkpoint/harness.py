"""Starts the test project and reads what it leaves."""

import atexit
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from vla_runtime.checkpoints import complete_checkpoints, read_tensors

HERE = Path(__file__).parent
RUNTIME = HERE.parents[2] / "templates" / "runtime"
sys.path.insert(0, str(HERE / "project"))

from project.settings import Settings  # noqa: E402

PATIENCE_S = 600.0  # a launch takes seconds; on a machine that does much else, minutes


def plan_of(settings: Settings) -> dict[str, Any]:
    """The part of a plan that the settings stand for."""
    rewarm = {"trains": {"lastLayers": 2}, "rewarm": 2, "from": settings.freeze}
    phases = (
        [{"from": 0, "trains": "none", "rewarm": 0}, rewarm]
        if settings.freeze
        else [{"from": 0, "trains": "all", "rewarm": 0}]
    )
    pipeline = {
        "name": "kill-test",
        "modules": [
            {"name": "vision", "lr": 1e-2, "dtype": "fp64", "freeze": phases},
            {"name": "language", "lr": 1e-2, "dtype": "fp64", "width": settings.width},
            {"name": "action", "lr": 1e-2, "dtype": "fp64"},
        ],
        "hardware": {"kind": "cpus", "processes": settings.world},
        "parallel": {"kind": "fsdp2", "shard": settings.strategy, "world": settings.world},
        "training": {
            "updates": settings.updates,
            "globalBatch": 12,
            "microBatch": 12 // settings.world,
            "accumulation": 1,
            "schedule": {"kind": "cosine", "warmup": settings.warmup, "floor": 0},
            "seed": 7,
            "skipNonFinite": settings.skip_non_finite,
        },
        "checkpoint": {"every": settings.every, "keep": settings.keep},
        "track": [],
    }
    return {"schemaVersion": 1, "hash": "0" * 64, "pipeline": pipeline, "notes": {}}


@dataclass(frozen=True)
class Machine:
    """What is unusual about the machine of a launch; 0: nothing.

    Attributes:
        port: of the rendezvous.
        file_bytes: size that no file may exceed.
        disk_bytes: size of the disk under runs/, which is gone after the launch; runs-then/ keeps what was on it.
    """

    port: int = 0
    file_bytes: int = 0
    disk_bytes: int = 0


ORDINARY = Machine()


@dataclass
class Result:
    """How a launch ended."""

    status: int
    output: str


class Project:
    """One copy of the project in a folder of its own."""

    def __init__(self, folder: Path, settings: Settings | None = None, *, overlays: Sequence[str] = ()) -> None:
        self.folder = folder
        for source in ("project", *overlays):
            shutil.copytree(HERE / source, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        self.settings = settings or Settings()
        self.rebuild()
        self.run = folder / "runs" / "kill-test"
        self.checkpoints = self.run / "checkpoints"

    def rebuild(self, **changes: Any) -> None:
        """Changes settings, as a changed pipeline.ts and a new build would."""
        self.settings = replace(self.settings, **changes)
        (self.folder / "settings.json").write_text(json.dumps(asdict(self.settings)), encoding="utf-8")
        (self.folder / "plan.json").write_text(json.dumps(plan_of(self.settings)), encoding="utf-8")

    def environment(self, **test: Any) -> dict[str, str]:
        """For the launcher."""
        return {"PYTHONPATH": str(RUNTIME), "OMP_NUM_THREADS": "1", "VLA_TEST": json.dumps(test)}

    def start(
        self, *arguments: str, processes: int | None = None, machine: Machine = ORDINARY, **test: Any
    ) -> "Launch":
        """Starts a launch from the fork server."""
        output = self.folder / f"output-{secrets.token_hex(4)}.txt"
        task = {
            "folder": str(self.folder),
            "world": processes or self.settings.world,
            "arguments": arguments,
            "environment": self.environment(**test),
            "output": str(output),
            **asdict(machine),
        }
        pid = server().start(task)
        return Launch(pid, output, lambda: server().wait(pid))

    def launch(self, *arguments: str, processes: int | None = None, machine: Machine = ORDINARY, **test: Any) -> Result:
        """Runs a launch from the fork server to its end."""
        return self.start(*arguments, processes=processes, machine=machine, **test).wait()

    def start_torchrun(self, *arguments: str, processes: int | None = None, **test: Any) -> "Launch":
        """Starts a launch of torchrun, as launch/local.sh has it."""
        count = str(processes or self.settings.world)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count, "train.py"]
        output = self.folder / f"output-{secrets.token_hex(4)}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=self.folder,
                env={**os.environ, **self.environment(**test)},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        return Launch(process.pid, output, process.wait)

    def torchrun(self, *arguments: str, processes: int | None = None, **test: Any) -> Result:
        """Runs a launch of torchrun to its end."""
        return self.start_torchrun(*arguments, processes=processes, **test).wait()

    def curve(self) -> list[dict[str, Any]]:
        """metrics.jsonl without what depends on the clock."""
        lines = (self.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [
            {k: v for k, v in json.loads(line).items() if k not in ("seconds", "samples_per_second")} for line in lines
        ]

    def weights(self, step: int | None = None) -> dict[str, torch.Tensor]:
        """Everything in the newest checkpoint's tensors, or in that of a step."""
        path = complete_checkpoints(self.checkpoints)[0] if step is None else self.checkpoints / f"step-{step:08d}"
        return dict(read_tensors(path, ""))

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of every file of the run."""
        return {
            str(path.relative_to(self.run)): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in sorted(self.run.rglob("*"))
            if path.is_file()
        }

    def processes(self) -> list[int]:
        """Pids of living processes that work in this folder."""
        found: list[int] = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and os.readlink(folder / "cwd") == str(self.folder):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def await_end(self, seconds: float) -> None:
        """Waits until no process of this project lives."""
        end = time.monotonic() + seconds
        while self.processes():
            assert time.monotonic() < end, f"still alive after {seconds} s: {self.processes()}"
            time.sleep(0.02)


class Server:
    """The process that launches are forked from; see forkserver.py."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "forkserver.py")],
            env={**os.environ, "PYTHONPATH": str(RUNTIME), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._status: dict[int, int] = {}
        self._started: list[int] = []
        self._read(lambda: self._ready)
        atexit.register(self.close)

    _ready = False

    def _read(self, until: Callable[[], bool]) -> None:
        assert self._process.stdout is not None
        while not until():
            line = self._process.stdout.readline()
            assert line, "the fork server ended"
            message = json.loads(line)
            if "ready" in message:
                self._ready = True
            elif "started" in message:
                self._started.append(message["started"])
            else:
                self._status[message["ended"]] = message["status"]

    def start(self, task: dict[str, Any]) -> int:
        """Forks a launcher; returns its pid."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()
        self._read(lambda: bool(self._started))
        return self._started.pop()

    def wait(self, pid: int) -> int:
        """The launcher's exit status; negative: the signal that killed it."""
        self._read(lambda: pid in self._status)
        return self._status.pop(pid)

    def close(self) -> None:
        """Ends the server."""
        self._process.kill()
        self._process.wait()


@cache
def server() -> Server:
    """One for the test session."""
    return Server()


@dataclass
class Launch:
    """A launch under way: its launcher's pid, the file with what it prints, and what waits for its status."""

    pid: int
    path: Path
    status: Callable[[], int]

    def output(self) -> str:
        """What its processes have printed so far."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def await_output(self, text: str) -> None:
        """Waits until it has printed something."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.output():
            assert time.monotonic() < end and Path(f"/proc/{self.pid}").exists(), f"no {text!r} in:\n{self.output()}"
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        """Sends the launcher a signal."""
        os.kill(self.pid, number)

    def wait(self) -> Result:
        """Waits for its end; a launch that hangs is killed and fails the test."""
        guard = threading.Timer(PATIENCE_S, lambda: os.kill(self.pid, signal.SIGKILL))
        guard.start()
        try:
            status = self.status()
            hung = not guard.is_alive()
        finally:
            guard.cancel()
        assert not hung, f"the launch did not end:\n{self.output()}"
        return Result(status, self.output())


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float = 0.0) -> None:
    """Equal keys, and equal bits or differences of at most `tolerance`."""
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        difference = (tensor.double() - right[name].double()).abs().max().item() if tensor.numel() else 0.0
        assert difference <= tolerance, f"{name} differs by {difference}"
