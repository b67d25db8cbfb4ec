"""Where conversions write: never over something, and never half."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vla_runtime.errors import UserError

from .sizes import Sizes


def free(target: Path) -> None:
    """Raises UserError unless the target can be made: it is not there, or is an empty directory."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists():
        what = "is a file" if target.is_file() else "is not empty"
        raise UserError(f"{target} {what}. Nothing is overwritten: name another target, or remove this one.")


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A directory beside the target, which takes its name when everything is written and verified, and goes away otherwise."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.mkdir(parents=True)
    except FileExistsError as error:
        raise UserError(
            f"{partial} is there already: another conversion writes it now, or one was ended by force. Remove it, or name another target."
        ) from error
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if target.is_dir():
        target.rmdir()  # it is empty
    partial.rename(target)


def enough_room(partial: Path, needed: int) -> None:
    """Raises UserError where the disk has no room for the weights."""
    room = shutil.disk_usage(partial).free
    if room < needed:
        raise UserError(
            f"{partial.parent} has {room:,} bytes left, and the weights need {needed:,}. Make room, or write elsewhere."
        )


def published(sizes: Sizes, other_sizes: bool) -> None:
    """Raises UserError for a model of sizes that no configuration can say, unless that was asked for."""
    if sizes.published or other_sizes:
        return
    raise UserError(
        f"This model is of none of the published sizes (language {sizes.language}, expert {sizes.expert}, vision {sizes.vision}, "
        f"vocabulary {sizes.vocabulary}). LeRobot's configuration knows gemma_2b and gemma_300m with SigLIP So400m/14 alone, so its "
        "loader would build another model. With --other-sizes it is converted all the same, for classes that were changed to these sizes."
    )


class Progress:
    """A line for each tenth of the work."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._done = 0

    def step(self) -> None:
        """One more is done."""
        before = self._done * 10 // self._total
        self._done += 1
        if self._done * 10 // self._total > before:
            print(f"  {self._done:,} of {self._total:,} {self._what}", flush=True)
