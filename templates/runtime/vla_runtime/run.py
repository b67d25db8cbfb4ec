"""One training run: its directory and lock, its processes, its signals, its numbers."""

import argparse
import ctypes
import fcntl
import hashlib
import json
import logging
import math
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.rendezvous import rendezvous

from . import points, timeouts
from .errors import UserError
from .tracking import JsonLines, Record, Tracker

log = logging.getLogger("vla_runtime")

_LAUNCHER = os.getppid()
_LOCK_PATIENCE = 5.0  # seconds that a new launch waits for the last processes of a killed one
_PROGRESS_SECONDS = 10.0  # between two lines of progress

Number = torch.Tensor | float


class Run:
    """A run as one of its processes sees it. Made by `start_run`.

    Attributes:
        directory: where checkpoints, metrics and logs are; the same on every node.
        plan: the content of plan.json.
        seed: the declared seed.
        rank: this process among all.
        local_rank: this process on its node.
        world: number of processes.
        device: where this process computes.
        control: gloo group of all processes for small messages, besides the collectives of the training.
        allowed_changes: the `--allow-change` of the command line.
        findings: what the preflight has found and not yet reported.
        done: updates made.
        skipped: updates skipped for a non-finite loss or gradient, earlier launches included.
    """

    def __init__(
        self, directory: Path, plan: dict[str, Any], *, seed: int, rank: int, local_rank: int, world: int, device: torch.device,
        control: dist.ProcessGroup, trackers: Sequence[Tracker], skip_non_finite: int, grace: float, allowed_changes: Sequence[str],
    ) -> None:  # fmt: skip
        self.directory = directory
        self.plan = plan
        self.seed = seed
        self.rank = rank
        self.local_rank = local_rank
        self.world = world
        self.device = device
        self.control = control
        self.allowed_changes = list(allowed_changes)
        self.findings: list[str] = []
        self.done = 0
        self.skipped = 0
        self.stopped_by: signal.Signals | None = None
        self._metrics = JsonLines()
        self._trackers: list[Tracker] = [self._metrics, *(t for t in trackers if not isinstance(t, JsonLines))]
        self._open = False
        self._skip_non_finite = skip_non_finite
        self._grace = grace
        self._signal = 0
        self._signal_time = 0.0
        self._failure: str | None = None
        self._total = 0
        self._last_log = time.perf_counter()
        self._last_progress = -math.inf
        self._lock: _Lock | None = None

    # Words

    def say(self, text: str) -> None:
        """Prints a line, by rank 0 alone, and writes it to every rank's log."""
        log.info(text)
        if self.rank == 0:
            print(text, flush=True)

    def agree(self, error: str | None) -> None:
        """Raises on every rank what any rank has to complain about. Every rank must call it.

        Raises:
            UserError: the messages of all ranks, each once, with the ranks' numbers where not all say the same.
        """
        errors: list[str | None] = [None] * self.world
        dist.all_gather_object(errors, error, group=self.control)
        by_message: dict[str, list[int]] = {}
        for rank, message in enumerate(errors):
            if message is not None:
                by_message.setdefault(message, []).append(rank)
        if by_message:
            raise UserError(
                "\n".join(
                    message if len(ranks) == self.world else f"rank {', '.join(map(str, ranks))}: {message}"
                    for message, ranks in by_message.items()
                )
            )

    def fail(self, message: str) -> None:
        """Makes every rank stop with this message at the end of the update. For threads in the background of one rank."""
        self._failure = message

    def from_rank_zero(self, value: Any) -> Any:
        """Rank 0's value, on every rank. Every rank must call it."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    @contextmanager
    def local_rank_first(self) -> Iterator[None]:
        """Runs the body on one process of each node first, then on the others: one download, one preparation per node.

        Every rank must enter it. If the first fails, the others fail with it instead of repeating the work.
        """
        first = self.local_rank == 0
        error: str | None = None
        if first:
            try:
                yield
            except UserError as failure:
                error = str(failure)
        self.agree(error)
        if not first:
            yield

    # The loop

    def begin(self, done: int, metrics_bytes: int = 0) -> None:
        """Opens the trackers after `done` updates. `Checkpoints.resume` calls it."""
        self.done = done
        self._open = True
        if self.rank == 0:
            for tracker in self._trackers:
                tracker.open(self.directory, done, self.plan)
            kept = self._metrics.position()
            if done and kept != metrics_bytes:
                self.say(
                    f"metrics.jsonl is not as the checkpoint left it ({kept} bytes of earlier updates, {metrics_bytes} then)."
                )

    def updates(self, done: int, total: int) -> Iterator[int]:
        """The indices of the updates that are still to be made.

        Each update begins with Python's, NumPy's and torch's generators seeded from (seed, update, rank), so that no random state
        has to survive a restart. The iterator ends early, on every rank after the same update, when any rank was asked to stop
        by SIGTERM, SIGINT or SIGUSR1; and raises what `fail` was given anywhere.
        """
        if self.findings:
            raise UserError("\n".join(["the preflight has findings:", *self.findings]))
        if not self._open:
            self.begin(done)
        self.done, self._total = done, total
        self._last_log = time.perf_counter()
        while self.done < total and not self._stops():
            _seed_everything(self.seed, self.done, self.rank)
            yield self.done
            self.done += 1
            points.reached("between updates")
        if self.stopped_by is not None:
            self.say(f"{self.stopped_by.name}: stopped after {self.done} of {total} updates.")

    def _stops(self) -> bool:
        flags = torch.tensor([self._signal, int(self._failure is not None)])
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=self.control)
        number, failed = flags.tolist()
        if failed:
            self.agree(self._failure)
        if number:
            self.stopped_by = signal.Signals(number)
            self._signal_time = self._signal_time or time.monotonic()
        return bool(number)

    def asked_to_stop(self, number: int, _frame: FrameType | None) -> None:
        """The handler of the signals that end a run."""
        self._signal = number
        self._signal_time = self._signal_time or time.monotonic()

    def seconds_left(self) -> float:
        """How long the launcher will still wait for this process after a signal; infinite without one."""
        return math.inf if self.stopped_by is None else self._signal_time + self._grace - time.monotonic()

    def all_finite(self, loss: Number, norms: Mapping[str, Number]) -> bool:
        """Whether the optimizer may step: the loss and every module's gradient norm are finite, on every rank.

        Otherwise all ranks skip the update together, it is said and counted.

        Raises:
            UserError: more updates than declared (`skipNonFinite`) have been skipped.
        """
        values = {
            "the loss": float(loss),
            **{f"the gradient of {module}": float(norm) for module, norm in norms.items()},
        }
        broken = ", ".join(f"{name} ({value})" for name, value in values.items() if not math.isfinite(value))
        flag = torch.tensor(int(bool(broken)))
        dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.control)
        if not flag:
            return True
        self.skipped += 1
        everywhere: list[str] = [""] * self.world
        dist.all_gather_object(everywhere, broken, group=self.control)
        broken = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(everywhere) if text)
        if len(set(everywhere)) == 1:
            broken = everywhere[0]
        if self.skipped > self._skip_non_finite:
            raise UserError(
                f"update {self.done}: not finite: {broken}. {self.skipped} updates of this run were skipped for this, "
                f"skipNonFinite allows {self._skip_non_finite}. The weights are those of the last finite update. "
                "A lower lr, a longer warm-up or clipping are the usual remedies; bf16 overflows later than it loses precision, "
                "so look at the data of this update first."
            )
        self.say(
            f"update {self.done} is skipped: not finite: {broken} ({self.skipped} of at most {self._skip_non_finite})."
        )
        return False

    def log(
        self, update: int, *, loss: Number, norms: Mapping[str, Number], lr: Mapping[str, Number], samples: int,
        **more: Number | Mapping[str, Number],
    ) -> None:  # fmt: skip
        """Hands the numbers of one update to the trackers (rank 0).

        Args:
            update: its index.
            loss: over the global batch.
            norms: gradient norm before clipping, by module.
            lr: learning rate that the update used, by module.
            samples: in the global batch; gives the samples per second.
            **more: further numbers, or numbers by name, as `held_out={"bridge": 0.1}`.
        """
        if self.rank != 0:
            return
        now = time.perf_counter()
        seconds, self._last_log = now - self._last_log, now
        record: Record = {
            "update": update,
            "loss": float(loss),
            "norms": _floats(norms),
            "lr": _floats(lr),
            "samples_per_second": round(samples / max(seconds, 1e-9), 3),
            "seconds": round(seconds, 6),
            "skipped": self.skipped,
            **{name: _floats(value) if isinstance(value, Mapping) else float(value) for name, value in more.items()},
        }
        for tracker in self._trackers:
            tracker.write(record)
        if now - self._last_progress >= _PROGRESS_SECONDS or update + 1 == self._total:
            self._last_progress = now
            left = int((self._total - update - 1) * seconds)
            rates = "  ".join(f"{module} {rate:.2e}" for module, rate in record["lr"].items())
            print(
                f"update {update + 1}/{self._total}  loss {record['loss']:.5g}  lr {rates}  "
                f"{record['samples_per_second']:.1f} samples/s  {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left",
                flush=True,
            )

    def metrics_bytes(self) -> int:
        """How much of metrics.jsonl is written (and on the disk), rank 0; 0 on the others."""
        return self._metrics.position() if self.rank == 0 else 0

    def close(self) -> None:
        """Closes trackers and process group and gives the directory back. Every rank must call it."""
        if self.rank == 0 and self._open:
            for tracker in self._trackers:
                tracker.close()
        dist.barrier(group=self.control)
        dist.destroy_process_group()
        if self._lock is not None:
            self._lock.release()


def start_run(
    directory: str,
    *,
    plan: str,
    seed: int,
    world: int,
    track: Sequence[Tracker] = (),
    skip_non_finite: int = 10,
    grace: float = 30.0,
    arguments: Sequence[str] | None = None,
) -> Run:
    """Begins a run: reads the command line, joins the processes, locks the directory, opens the rank's log.

    Workers die with their launcher (torchrun does not see to that when it is killed itself). SIGTERM, SIGINT and SIGUSR1 let the
    present update end.

    Args:
        directory: of the run; must be one directory for all nodes.
        plan: path of plan.json.
        seed: declared seed.
        world: number of processes that the plan was built for.
        track: where the numbers go besides metrics.jsonl.
        skip_non_finite: updates that may be skipped for a non-finite loss or gradient before the run stops.
        grace: seconds between SIGTERM and SIGKILL of the launcher (torchrun: 30).
        arguments: command line; by default the process's own.

    Raises:
        UserError: another number of processes, no such device, a port in use, a directory in use by another launch.
    """
    _die_with_launcher()
    allowed_changes = _parse(arguments)
    rank, local_rank, started = _environment(world)
    if started != world:
        raise UserError(
            f"the plan says {_processes(world)}, the launcher started {started}. "
            f"Start {world} (launch/local.sh does), or change hardware in pipeline.ts and build again."
        )
    content = _read_plan(Path(plan))
    device = _device(content, local_rank)
    for tracker in track if rank == 0 else ():
        tracker.check()
    _join(rank, world, device)
    control = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timeouts.CONTROL))
    run = Run(
        Path(directory), content, seed=seed, rank=rank, local_rank=local_rank, world=world, device=device, control=control,
        trackers=track, skip_non_finite=skip_non_finite, grace=grace, allowed_changes=allowed_changes,
    )  # fmt: skip
    run._lock = _take_directory(run)
    _open_log(run)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, run.asked_to_stop)
    _seed_everything(seed, -1, rank)
    return run


def _die_with_launcher() -> None:
    """Asks Linux to kill this process when torchrun dies, and dies at once if it is dead already."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None, use_errno=True).prctl(set_parent_death_signal, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != _LAUNCHER:
        os.kill(os.getpid(), signal.SIGKILL)


def _parse(arguments: Sequence[str] | None) -> list[str]:
    parser = argparse.ArgumentParser(
        description="Trains, or resumes from the newest complete checkpoint of the run's directory."
    )
    parser.add_argument(
        "--allow-change", metavar="PATH", action="append", default=[],
        help="accept, on resume, that this field of the plan has changed, for example modules.vision.lr",
    )  # fmt: skip
    return parser.parse_args(arguments).allow_change


def _environment(world: int) -> tuple[int, int, int]:
    """Rank, local rank and number of processes, as the launcher says."""
    if "WORLD_SIZE" not in os.environ:
        if world > 1:
            raise UserError(
                f"the plan says {_processes(world)}, but this one was started without a launcher. "
                f"Use launch/local.sh, or torchrun --standalone --nproc-per-node {world} {Path(sys.argv[0]).name}"
            )
        return 0, 0, 1
    rank = int(os.environ["RANK"])
    return rank, int(os.environ.get("LOCAL_RANK", rank)), int(os.environ["WORLD_SIZE"])


def _read_plan(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        _ = content["pipeline"]["hardware"]["kind"], content["hash"]
    except FileNotFoundError:
        raise UserError(f"{path} is not in {Path.cwd()}. Start train.py in its own folder.") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path.absolute()} is no plan; build the project again.") from None
    return content


def _device(plan: dict[str, Any], local_rank: int) -> torch.device:
    if plan["pipeline"]["hardware"]["kind"] == "cpus":
        return torch.device("cpu")
    seen = torch.cuda.device_count()
    if local_rank >= seen:
        raise UserError(
            f"the plan says GPUs, and process {local_rank} of this node needs its own, but torch sees {seen}. "
            "Check nvidia-smi, CUDA_VISIBLE_DEVICES and that torch is a CUDA build."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _join(rank: int, world: int, device: torch.device) -> None:
    """Makes the default process group."""
    gpu = device.type == "cuda"
    backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
    device_id = device if gpu else None
    if "MASTER_ADDR" not in os.environ:  # one process, no launcher
        dist.init_process_group(
            backend, store=HashStore(), rank=0, world_size=1, timeout=timeouts.COLLECTIVE, device_id=device_id
        )
        return
    address = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT', '?')}"
    try:
        store, _, _ = next(rendezvous("env://", rank, world, timeout=timeouts.RENDEZVOUS))
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world, timeout=timeouts.COLLECTIVE, device_id=device_id
        )
    except dist.DistNetworkError as error:
        if "EADDRINUSE" in str(error) or "address already in use" in str(error).lower():
            raise UserError(
                f"the port of {address} is in use by another process. Choose another (MASTER_PORT, or torchrun --master-port), "
                "or start with torchrun --standalone, which finds a free one."
            ) from None
        raise UserError(
            f"rank {rank} found no rendezvous at {address} within {int(timeouts.RENDEZVOUS.total_seconds())} s: {error}"
        ) from None


class _Lock:
    """A lock on a run's directory, shared by the processes of one launch.

    A launch begins by holding it alone, which it can only when no process of another launch lives, not even one that has lost its
    launcher. The kernel lets go of it when a process dies, however it dies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.register_at_fork(after_in_child=self.release)  # loader workers must not hold it

    def alone(self, patience: float) -> bool:
        """Whether nobody else holds it, waiting for dying processes; holds it alone if so."""
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
            else:
                return True

    def share(self) -> bool:
        """Holds it together with the launch's other processes; false if another launch holds it alone."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def holders(self) -> dict[str, Any]:
        """What the last launch that held it wrote about itself."""
        try:
            return json.loads(os.pread(self._file, 1 << 20, 0))
        except ValueError:
            return {}

    def sign(self, holders: dict[str, Any]) -> None:
        """Writes who holds it, for the message that another launch will show."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(holders).encode(), 0)

    def release(self) -> None:
        """Lets go (in this process)."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _take_directory(run: Run) -> _Lock:
    """Locks the run's directory for this launch. Every rank must call it."""
    processes: list[list[Any]] = [[] for _ in range(run.world)]
    dist.all_gather_object(processes, [socket.gethostname(), os.getpid()], group=run.control)
    path = run.directory / "lock"
    launch = secrets.token_hex(8)
    lock: _Lock | None = None
    error: str | None = None
    if run.rank == 0:
        try:
            (run.directory / "logs").mkdir(parents=True, exist_ok=True)
            lock = _Lock(path)
            if lock.alone(_LOCK_PATIENCE):
                lock.sign(
                    {"launch": launch, "since": datetime.now(UTC).isoformat(timespec="seconds"), "processes": processes}
                )
            else:
                error = _in_use(run.directory, lock.holders())
            if error is None and not lock.share():
                error = _in_use(run.directory, {})
        except OSError as failure:
            error = f"{run.directory.absolute()} cannot be locked: {failure.strerror}. It must be a writable directory on a file system with locks."
    run.agree(error)
    launch = run.from_rank_zero(launch)
    if run.rank != 0:
        seen = path.exists()
        lock = _Lock(path) if seen else None
        if lock is None or lock.holders().get("launch") != launch:
            error = (
                f"{socket.gethostname()} does not see rank 0's {run.directory.absolute()}. "
                "The run's directory must lie on a file system that all nodes share."
            )
        elif not lock.share():
            error = _in_use(run.directory, {})
    run.agree(error)
    assert lock is not None
    return lock


def _in_use(directory: Path, holders: dict[str, Any]) -> str:
    by = ""
    if holders:
        listed = ", ".join(f"{pid} on {host}" for host, pid in holders.get("processes", []))
        by = f" (processes {listed}, since {holders.get('since')})"
    return (
        f"{directory} is in use by another launch{by}. Wait for it or stop it; two launches in one directory would overwrite "
        "each other's checkpoints."
    )


def _open_log(run: Run) -> None:
    handler = logging.FileHandler(run.directory / "logs" / f"rank-{run.rank}.log", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for logger in (log, logging.getLogger("py.warnings")):
        logger.addHandler(handler)
    logging.captureWarnings(capture=True)
    log.setLevel(logging.INFO)
    log.propagate = False  # libraries that set up the root logger would say everything again
    log.info("rank %d of %d, process %d on %s, %s", run.rank, run.world, os.getpid(), socket.gethostname(), run.device)


def _seed_everything(seed: int, update: int, rank: int) -> None:
    """Seeds Python's, NumPy's and torch's global generators from three numbers."""
    digest = hashlib.sha256(f"{seed}/{update}/{rank}".encode()).digest()
    number = int.from_bytes(digest[:8], "big") >> 1
    random.seed(number)
    numpy.random.seed(number % 2**32)
    torch.manual_seed(number)


def _floats(values: Mapping[str, Number]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
