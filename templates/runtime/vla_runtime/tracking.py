"""Where the numbers of a run go. Only rank 0 writes."""

import json
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

from .errors import UserError

Record = dict[str, Any]
"""One update: `update` (from 0), `loss`, `norms` and `lr` by module, `samples_per_second`, `seconds`, `skipped`, and more."""


class Tracker(Protocol):
    """Something that takes the numbers of each update."""

    def check(self) -> None:
        """Looks, in the first second of a run, whether writing will be possible.

        Raises:
            UserError: it will not.
        """
        ...

    def open(self, directory: Path, done: int, plan: dict[str, Any]) -> None:
        """Begins after `done` updates: what an earlier launch wrote about later ones must not be seen again."""
        ...

    def write(self, record: Record) -> None:
        """Takes the numbers of one update."""
        ...

    def close(self) -> None:
        """Writes what is still held back."""
        ...


class JsonLines:
    """`metrics.jsonl` in the run's directory: one JSON object per update. Always on."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def check(self) -> None:
        """The run's directory is writable, or there would be no lock on it."""

    def open(self, directory: Path, done: int, plan: dict[str, Any]) -> None:
        """Cuts the file after the updates that the checkpoint holds, a line torn by a kill included.

        Raises:
            UserError: a whole line is no record of ours.
        """
        path = directory / "metrics.jsonl"
        path.touch()
        self._file = path.open("r+b")
        keep = 0
        for number, line in enumerate(self._file, start=1):
            try:
                update = int(json.loads(line)["update"]) if line.endswith(b"\n") else done
            except (ValueError, KeyError, TypeError):
                raise UserError(
                    f"line {number} of {path} is no record of a run: {line[:80]!r}. Move the file away."
                ) from None
            if update >= done:
                break
            keep += len(line)
        self._file.seek(keep)
        self._file.truncate()

    def write(self, record: Record) -> None:
        """Appends one line; what is not finite becomes null, which JSON can say."""
        assert self._file is not None
        self._file.write(json.dumps(_finite(record), allow_nan=False).encode() + b"\n")
        self._file.flush()

    def position(self) -> int:
        """Bytes written so far, all of them on the disk when this returns."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()


class TensorBoard:
    """Event files in the run's `tensorboard/`. After a resume, events of updates that are made again are hidden."""

    def __init__(self) -> None:
        self._writer: Any = None

    def check(self) -> None:
        """Raises:
        UserError: tensorboard is not installed.
        """
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError:
            raise UserError(
                "tracking with TensorBoard needs the package tensorboard: pip install tensorboard"
            ) from None

    def open(self, directory: Path, done: int, plan: dict[str, Any]) -> None:
        """Opens a new event file that hides the events of later updates."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(directory / "tensorboard"), purge_step=done)

    def write(self, record: Record) -> None:
        """Writes each number under its path: `loss`, `lr/vision`."""
        for name, value in _flat(record):
            if name != "update":
                self._writer.add_scalar(name, value, record["update"])
        self._writer.flush()

    def close(self) -> None:
        """Closes the event file."""
        if self._writer is not None:
            self._writer.close()


class WandB:
    """Weights & Biases. The key comes from the environment or `wandb login`, never from a file of the project.

    A resumed run goes on under its old id. wandb refuses steps that it has seen; a resume repeats them with equal numbers.

    Args:
        project: its name on the server.
        entity: user or team; by default the key's.
    """

    def __init__(self, project: str, entity: str | None = None) -> None:
        self.project = project
        self.entity = entity
        self._run: Any = None

    def check(self) -> None:
        """Raises:
        UserError: wandb is not installed, or it has no key and nobody said that it shall work without.
        """
        try:
            import wandb
        except ImportError:
            raise UserError("tracking with wandb needs the package wandb: pip install wandb") from None
        if os.environ.get("WANDB_MODE", "online") == "online" and not wandb.api.api_key:
            raise UserError(
                "tracking with wandb is declared, but this machine has no API key. Set WANDB_API_KEY or run `wandb login`; "
                "or set WANDB_MODE=offline to write to the run's directory and `wandb sync` later."
            )

    def open(self, directory: Path, done: int, plan: dict[str, Any]) -> None:
        """Begins a run on the server, or goes on with this directory's."""
        import wandb

        path = directory / "wandb-id"
        if not path.exists():
            path.write_text(secrets.token_hex(4), encoding="utf-8")
        self._run = wandb.init(
            project=self.project, entity=self.entity, dir=str(directory), id=path.read_text(encoding="utf-8"), resume="allow",
            name=directory.name, config=plan,
        )  # fmt: skip

    def write(self, record: Record) -> None:
        """Logs each number under its path."""
        self._run.log({name: value for name, value in _flat(record) if name != "update"}, step=record["update"])

    def close(self) -> None:
        """Waits until everything is sent."""
        if self._run is not None:
            self._run.finish()


def _flat(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in nested dictionaries, each under its path."""
    if isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield from _flat(item, f"{path}/{key}" if path else key)
    elif isinstance(value, int | float):
        yield path, float(value)


def _finite(value: Any) -> Any:
    """The same with null for what is not finite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast(dict[str, Any], value).items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
