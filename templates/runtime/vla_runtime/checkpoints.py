"""Checkpoints: written in the background, complete or not there, resumed from exactly.

One directory per step, `checkpoints/step-00000600`: the state after 600 updates.

    .metadata, __*.distcp     torch.distributed.checkpoint, sharded: `model.<name>` for every parameter and persistent buffer, frozen
                              and dead ones included, `optimizer.<name>.<state>` for every parameter that has state
    training.json             update, schedule, data position, freeze phases, skipped updates, learning rates, metrics position
    plan.json                 the plan of the run that wrote it
    reference.safetensors,    raw inputs and the actions that the trainer computes from them with these weights: every package is
    reference.json            compared with them
    COMPLETE                  the marker, written last: sizes of all other files

It is written as `step-00000600.partial` and gets its name when the marker is on the disk, in one step that the file system makes
atomic. What else lies there is half written and never taken. There is no random state among the contents: every update seeds the
generators from (seed, update, rank), see `Run.updates`.
"""

import json
import logging
import math
import os
import pickle
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from . import points, timeouts
from .errors import Stopped, UserError, disk_full
from .partition import Partition, plain_name
from .plans import compare, describe
from .run import Run
from .sharding import fsdp_units

log = logging.getLogger("vla_runtime")

FORMAT = "vla-checkpoint-1"
MARKER = "COMPLETE"
_GROUP_BYTES = 1 << 30  # tensors that are read at a time: every read parses the metadata of the whole checkpoint
_UNMEASURED_BYTES_PER_SECOND = 100e6  # of one rank, for a run that has not yet written a checkpoint when it must decide


class Schedule(Protocol):
    """What a checkpoint needs of a learning-rate schedule (`vla_runtime.optim.Schedule`)."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def lrs(self) -> dict[str, float]: ...


class Data(Protocol):
    """What a checkpoint needs of the samples (`vla_runtime.data.Samples`)."""

    def state(self) -> dict[str, int]: ...
    def load_state(self, state: Mapping[str, int]) -> None: ...

    normalization: Any

    def reference_batch(self) -> Any: ...
    def denormalize(self, actions: Tensor, datasets: Sequence[str]) -> Tensor: ...


class Checkpoints:
    """The checkpoints of a run. Every rank makes one and calls its methods at the same updates.

    Args:
        run: the run.
        every: updates between two checkpoints; the last update always has one.
        keep: complete checkpoints that stay; older ones are deleted once a newer is complete.
    """

    def __init__(self, run: Run, *, every: int, keep: int) -> None:
        if every < 1 or keep < 1:
            raise UserError(f"checkpoints every {every} updates, keeping {keep}: both must be at least 1.")
        self.run = run
        self.every = every
        self.keep = keep
        self.directory = run.directory / "checkpoints"
        self._saved = 0  # step of the last checkpoint that was begun or resumed from
        self._seconds = 0.0  # the longest that a checkpoint has taken, from the decision to the marker
        self._staging: Future[dict[str, Any]] | None = None
        self._writing: Future[float] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        # Collectives of the writer run beside those of the training and must not meet them.
        self._group = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=timeouts.CHECKPOINT))

    # Saving

    def save_if_due(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        data: Data,
        partition: Partition,
    ) -> None:
        """Begins to save the state after `step` updates, where one is due. Training may go on; see `wait_for_staging`."""
        if step % self.every == 0:
            self._save(step, model, optimizer, schedule, data, partition)

    def wait_for_staging(self) -> None:
        """Returns when the checkpoint that is being written no longer reads the model. Call it before the optimizer moves it."""
        if self._staging is not None:
            self._staging.result()
            self._staging = None

    def finish(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, data: Data, partition: Partition
    ) -> None:
        """Saves where the run ended, waits until it is written, and closes the run.

        A run that was asked to stop saves only if that fits into the time that the launcher leaves; the last complete checkpoint
        stands in any case.

        Raises:
            Stopped: a signal ended the run (`run_or_explain` turns it into the exit status).
            UserError: the checkpoint could not be written.
        """
        run = self.run
        if self._saved < run.done and self._fits(model, optimizer):
            self._save(run.done, model, optimizer, schedule, data, partition)
        self._await_writing()
        self._writer.shutdown()
        newest = next(iter(complete_checkpoints(self.directory)), None)
        run.say(f"{run.done} updates are done; the newest checkpoint is {newest}.")
        run.close()
        if run.stopped_by is not None:
            raise Stopped(run.stopped_by)

    def _save(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        data: Data,
        partition: Partition,
    ) -> None:
        self._await_writing()
        began = time.monotonic()
        points.reached("before staging")
        reference = _reference(model, data)
        tensors = _tensors(model, optimizer, partition)
        training = {
            "update": step,
            "schedule": schedule.state_dict(),
            "data": data.state(),
            "phases": partition.state_dict(),
            "skipped": self.run.skipped,
            "lrs": schedule.lrs(),
            "metricsBytes": self.run.metrics_bytes(),
            "seed": self.run.seed,
            "world": self.run.world,
            "torch": torch.__version__,
        }
        if self.run.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # the stager's stream does not wait for the optimizer's kernels
            options = StagingOptions(use_shared_memory=False)
        else:
            options = StagingOptions(False, False, False, False)
        staged = DefaultStager(options).stage(
            tensors
        )  # one per save: torch 2.11's forgets how to copy after its first use
        if isinstance(staged, Future):
            self._staging = staged
        self._saved = step
        self._writing = self._writer.submit(self._write, step, staged, training, reference, began)

    def _write(
        self,
        step: int,
        staged: dict[str, Any] | Future[dict[str, Any]],
        training: dict[str, Any],
        reference: dict[str, Any] | None,
        began: float,
    ) -> float:
        """Writes one checkpoint, in the background; rank 0 completes it. Returns the seconds it took."""
        partial = self.directory / f"{step_name(step)}.partial"
        try:
            tensors = staged.result() if isinstance(staged, Future) else staged
            points.reached("staged")
            writer = FileSystemWriter(partial, sync_files=True, overwrite=False)
            save(tensors, storage_writer=writer, process_group=self._group)
            points.reached("shards written")
            if self.run.rank == 0:
                self._complete(step, partial, training, reference)
        except BaseException as error:
            if self.run.rank == 0:
                shutil.rmtree(partial, ignore_errors=True)  # a full disk needs the room
            self.run.fail(self._not_written(step, error))
            raise
        return time.monotonic() - began

    def _complete(self, step: int, partial: Path, training: dict[str, Any], reference: dict[str, Any] | None) -> None:
        if reference is not None:
            save_file(reference["tensors"], partial / "reference.safetensors")
            _sync(partial / "reference.safetensors")
            _write_json(partial / "reference.json", reference["rest"])
        _write_json(partial / "plan.json", self.run.plan)
        _write_json(partial / "training.json", training)
        points.reached("before marker")
        sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        _write_json(partial / MARKER, {"format": FORMAT, "update": step, "files": sizes})
        points.reached("after marker")
        partial.rename(self.directory / step_name(step))
        _sync(self.directory)
        log.info("checkpoint %s is complete", step_name(step))
        for old in complete_checkpoints(self.directory)[self.keep :]:
            doomed = old.with_name(f"{old.name}.deleting")
            old.rename(doomed)
            points.reached("pruning")
            shutil.rmtree(doomed)

    def _await_writing(self) -> None:
        """Waits for the checkpoint that is being written; raises on every rank what went wrong on any."""
        if self._writing is None:
            return
        writing, self._writing, self._staging = self._writing, None, None
        error: str | None = None
        try:
            self._seconds = max(self._seconds, writing.result())
        except (Exception, CheckpointException) as failure:  # the others must hear of it, whatever it is
            log.exception("writing a checkpoint failed")
            error = self._not_written(self._saved, failure)
        self.run.agree(error)

    def _not_written(self, step: int, error: BaseException) -> str:
        return f"the checkpoint after update {step} could not be written: {_why(error)}. {self._standing()}"

    def _standing(self) -> str:
        newest = next(iter(complete_checkpoints(self.directory)), None)
        if newest is None:
            return "There is no complete checkpoint yet; the next launch begins anew."
        return f"The last complete one stands, and the next launch resumes from it: {newest}."

    def _fits(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> bool:
        """Whether a checkpoint can be written before the launcher kills the run. Every rank must call it."""
        left = self.run.seconds_left()
        if math.isinf(left):
            return True
        needed = self._seconds
        if not needed:
            states = (
                value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
            )
            needed = sum(_local_bytes(t) for t in (*model.parameters(), *states)) / _UNMEASURED_BYTES_PER_SECOND
        worst = torch.tensor([needed, -left])
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=self.run.control)
        needed, left = worst[0].item(), -worst[1].item()
        if needed > left:
            self.run.say(
                f"no checkpoint now: it would take about {needed:.0f} s, the launcher waits {max(0.0, left):.0f} s. {self._standing()}"
            )
        return needed <= left

    # Resuming

    def resume(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, schedule: Schedule, data: Data, partition: Partition
    ) -> int:
        """Brings everything to where the newest complete checkpoint left it, and the metrics file too.

        Learning rates, boundaries and everything else that is declared stay as they are declared now; where an LR jumps for this,
        that is printed. Optimizer states exist after this for exactly those parameters that had one.

        Returns:
            The number of updates that are done; 0 without a checkpoint.

        Raises:
            UserError: the checkpoint is damaged or not of this run, or the plan differs where it may not.
        """
        run = self.run
        checkpoint, error = self._choose() if run.rank == 0 else (None, None)
        run.agree(error)
        checkpoint = cast(Path | None, run.from_rank_zero(checkpoint))
        if checkpoint is None:
            run.begin(0)
            return 0
        training, saved_plan = self._documents(checkpoint)
        differences = compare(saved_plan["pipeline"], run.plan["pipeline"], run.allowed_changes)
        if differences:
            raise UserError(describe(differences, checkpoint))
        before = training["lrs"]
        partition.load_state_dict(training["phases"])
        self._load(checkpoint, model, optimizer, partition)
        schedule.load_state_dict(training["schedule"])
        data.load_state(training["data"])
        run.skipped = int(training["skipped"])
        self._saved = int(training["update"])
        run.begin(self._saved, int(training["metricsBytes"]))
        run.say(f"resumed from {checkpoint}: {self._saved} updates are done.")
        if training["world"] != run.world:
            run.say(
                f"it was written by {training['world']} processes, this run has {run.world}; the order of samples is the same."
            )
        for module, lr in schedule.lrs().items():
            if not math.isclose(lr, before.get(module, 0.0), rel_tol=1e-9):
                run.say(
                    f"the learning rate of {module} jumps here from {before.get(module, 0.0):.6g} to {lr:.6g}: the plan has changed."
                )
        return self._saved

    def _choose(self) -> tuple[Path | None, str | None]:
        """The newest complete checkpoint, after clearing away what a killed launch has left; or what is wrong with it."""
        self.directory.mkdir(exist_ok=True)
        for path in sorted(self.directory.iterdir()):
            if path.name.endswith((".partial", ".deleting")):
                self.run.say(f"removing {path}: an earlier launch was ended while it was at it.")
                shutil.rmtree(path)
            elif _step(path) is not None and not (path / MARKER).is_file():
                aside = path.with_name(f"{path.name}.incomplete-{int(time.time())}")
                self.run.say(f"{path} has no {MARKER} marker, so it is not used; it is now {aside.name}.")
                path.rename(aside)
        newest = next(iter(complete_checkpoints(self.directory)), None)
        if newest is not None:
            try:
                verify(newest)
            except UserError as failure:
                return None, str(failure)
        return newest, None

    def _documents(self, checkpoint: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """training.json and plan.json, read by rank 0 for all."""
        documents: list[dict[str, Any]] = []
        error: str | None = None
        if self.run.rank == 0:
            try:
                documents = [_read_json(checkpoint / name) for name in ("training.json", "plan.json")]
            except UserError as failure:
                error = str(failure)
        self.run.agree(error)
        training, saved_plan = self.run.from_rank_zero(documents)
        return training, saved_plan

    def _load(self, checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer, partition: Partition) -> None:
        """Reads model and optimizer, each rank its own shards, whatever the number of processes was."""
        for unit in fsdp_units(model):
            unit.reshard()
        targets = {f"model.{name}": tensor for name, tensor in _model_tensors(model, partition)}
        names = {id(parameter): name for name, parameter in partition.named_parameters()}
        states: list[tuple[torch.Tensor, str, str]] = []
        error: str | None = None
        try:
            saved = read_metadata(checkpoint)
            error = _misfits(targets, saved, checkpoint)
        except UserError as failure:
            error = str(failure)
            saved = {}
        self.run.agree(error)
        by_parameter: dict[str, list[str]] = {}
        for key in saved:
            if key.startswith("optimizer."):
                name, _, state = key.removeprefix("optimizer.").rpartition(".")
                by_parameter.setdefault(name, []).append(state)
        optimizer.state.clear()
        for group in optimizer.param_groups:
            on_device = bool(group.get("fused") or group.get("capturable"))
            for parameter in group["params"]:
                name = names[id(parameter)]
                for state in by_parameter.pop(name, []):
                    key = f"optimizer.{name}.{state}"
                    entry = saved[key]
                    if entry.size == parameter.shape:
                        targets[key] = torch.zeros_like(parameter, dtype=entry.properties.dtype, requires_grad=False)
                    else:
                        device = parameter.device if on_device else "cpu"
                        targets[key] = torch.zeros(entry.size, dtype=entry.properties.dtype, device=device)
                    states.append((parameter, state, key))
        if by_parameter:
            self.run.say(f"the optimizer's state of {len(by_parameter)} parameters that no longer train is dropped.")
        try:
            load(targets, storage_reader=FileSystemReader(checkpoint), process_group=self._group)
        except (CheckpointException, OSError, RuntimeError, EOFError, pickle.UnpicklingError) as failure:
            error = _damaged(checkpoint, _why(failure))
        self.run.agree(error)
        for parameter, state, key in states:
            optimizer.state[parameter][state] = targets[key]


# Reading, also without a run


def step_name(step: int) -> str:
    """Name of the directory with the state after so many updates."""
    return f"step-{step:08d}"


def _step(path: Path) -> int | None:
    digits = path.name.removeprefix("step-")
    return int(digits) if path.name.startswith("step-") and digits.isdigit() and path.is_dir() else None


def complete_checkpoints(directory: Path) -> list[Path]:
    """The complete checkpoints in `runs/<name>/checkpoints`, the newest first."""
    found = [
        (step, path)
        for path in directory.glob("step-*")
        if (step := _step(path)) is not None and (path / MARKER).is_file()
    ]
    return [path for _, path in sorted(found, reverse=True)]


def verify(checkpoint: Path) -> int:
    """Checks that a checkpoint is complete, of this format, and that no file was cut off since.

    Returns:
        The number of updates after which it was written.

    Raises:
        UserError: what is wrong and how to go on.
    """
    if not (checkpoint / MARKER).is_file():
        raise UserError(f"{checkpoint} is no complete checkpoint: it has no {MARKER} marker. Choose another.")
    try:
        marker = json.loads((checkpoint / MARKER).read_bytes())
        step, files = int(marker["update"]), dict(marker["files"])
        known = marker["format"] == FORMAT
    except (ValueError, KeyError, TypeError):
        raise UserError(_foreign(checkpoint, f"its {MARKER} marker cannot be read")) from None
    if not known:
        raise UserError(_foreign(checkpoint, f"its format is {marker['format']!r}, expected {FORMAT!r}"))
    if checkpoint.name != step_name(step):
        raise UserError(_foreign(checkpoint, f"it holds the state after update {step}"))
    for name, size in files.items():
        path = checkpoint / name
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            what = f"{name} is missing" if found is None else f"{name} has {found} bytes, {size} were written"
            raise UserError(_damaged(checkpoint, what))
    return step


def read_metadata(checkpoint: Path) -> dict[str, TensorStorageMetadata]:
    """Shape and dtype of every tensor of a checkpoint, by key.

    Raises:
        UserError: the metadata cannot be read.
    """
    try:
        metadata: Metadata = FileSystemReader(checkpoint).read_metadata()
    except Exception as failure:  # a pickle that is cut off or foreign fails in many ways
        raise UserError(
            _damaged(checkpoint, f".metadata cannot be read ({type(failure).__name__}: {failure})")
        ) from None
    return {
        key: entry for key, entry in metadata.state_dict_metadata.items() if isinstance(entry, TensorStorageMetadata)
    }


def read_tensors(checkpoint: Path, prefix: str = "model.") -> Iterator[tuple[str, Tensor]]:
    """The whole tensors of a checkpoint under a prefix, on the CPU, about a GiB at a time; needs no process group.

    Yields:
        Key without the prefix, and tensor. Names are the trainer's: adapters are there beside their base weights.
    """
    group: dict[str, Tensor] = {}
    keys = [(key, entry) for key, entry in sorted(read_metadata(checkpoint).items()) if key.startswith(prefix)]
    for index, (key, entry) in enumerate(keys):
        group[key] = torch.empty(entry.size, dtype=entry.properties.dtype)
        if index + 1 < len(keys) and sum(tensor.nbytes for tensor in group.values()) < _GROUP_BYTES:
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # as asked for
            load(group, storage_reader=FileSystemReader(checkpoint), no_dist=True)
        for name, tensor in group.items():
            yield name.removeprefix(prefix), tensor
        group = {}


# What is saved


def _model_tensors(model: nn.Module, partition: Partition) -> Iterator[tuple[str, Tensor]]:
    """Parameters and persistent buffers, each once, under their names without the recompute wrapper."""
    yield from ((name, parameter.detach()) for name, parameter in partition.named_parameters())
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module._non_persistent_buffers_set and id(buffer) not in seen:
                seen.add(id(buffer))
                yield plain_name(f"{prefix}.{name}" if prefix else name), buffer


def _tensors(model: nn.Module, optimizer: torch.optim.Optimizer, partition: Partition) -> dict[str, Tensor]:
    """Everything that goes into the sharded files, by key."""
    for unit in fsdp_units(model):
        unit.reshard()  # the reference batch may have left units gathered
    tensors = {f"model.{name}": tensor for name, tensor in _model_tensors(model, partition)}
    for name, parameter in partition.named_parameters():
        for state, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{state}"] = value
    return tensors


def _reference(model: nn.Module, data: Data) -> dict[str, Any] | None:
    """The reference batch with the actions that the model computes now. Every rank must call it; rank 0 gets the result."""
    reference = data.reference_batch()
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        predicted = cast(Any, model).predict(reference.batch)
    for module, training in modes:
        module.training = training
    if dist.get_rank() != 0:
        return None
    tensors: dict[str, Tensor] = {f"images.{camera}": image for camera, image in reference.images.items()}
    tensors |= {name: value for name in ("state", "noise") if (value := getattr(reference, name)) is not None}
    tensors["normalized_actions"] = predicted
    tensors["actions"] = data.denormalize(predicted.cpu(), reference.datasets)
    return {
        "tensors": {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()},
        "rest": {
            "instructions": list(reference.instructions),
            "datasets": list(reference.datasets),
            "normalization": data.normalization,
            # With which the policy's own draws are made for each sample, where it draws any.
            **({"seeds": list(reference.seeds)} if getattr(reference, "seeds", None) is not None else {}),
        },
    }


def _local_bytes(tensor: Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.numel() * local.element_size()


# Messages and files


def _misfits(targets: Mapping[str, Tensor], saved: Mapping[str, TensorStorageMetadata], checkpoint: Path) -> str | None:
    """What of the model the checkpoint lacks, has too much of, or has in another shape."""
    held = {key for key in saved if key.startswith("model.")}
    found = [f"{key} is missing" for key in sorted(targets.keys() - held)]
    found += [f"{key} is not in this model" for key in sorted(held - targets.keys())]
    found += [
        f"{key} has shape {list(saved[key].size)}, the model {list(targets[key].shape)}"
        for key in sorted(held & targets.keys())
        if saved[key].size != targets[key].shape
    ]
    if not found:
        return None
    more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
    return _foreign(checkpoint, "; ".join(found[:5]).replace("model.", "") + more)


def _damaged(checkpoint: Path, what: str) -> str:
    return (
        f"the checkpoint {checkpoint} is damaged: {what}. Restore it from a copy, or move the directory away: "
        "the run then resumes from the next older one, or from the beginning."
    )


def _foreign(checkpoint: Path, what: str) -> str:
    return (
        f"the checkpoint {checkpoint} is not one of this run: {what}. Move it out of the run's directory, "
        "or give this run a name of its own in pipeline.ts."
    )


def _why(error: BaseException) -> str:
    """The cause of a failed save or load in one line; of every rank that had one."""
    if isinstance(error, CheckpointException):
        ranks: dict[str, list[int]] = {}
        for rank, (cause, _) in sorted(error.failures.items()):
            ranks.setdefault(_why(cause), []).append(rank)
        return "; ".join(f"rank {', '.join(map(str, where))}: {what}" for what, where in ranks.items())
    cause: BaseException | None = error
    while cause is not None:
        full = disk_full(cause)
        if full is not None:
            return full
        cause = cause.__cause__ or cause.__context__
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".splitlines()[0]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as failure:
        raise UserError(_damaged(path.parent, f"{path.name} cannot be read ({failure})")) from None


def _write_json(path: Path, content: object) -> None:
    """Writes a file that is whole on the disk when it has its name."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _sync(temporary)
    temporary.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    """Waits until a file or the entries of a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
