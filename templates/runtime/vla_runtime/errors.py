"""Mistakes that a user can mend, and how a process of a run ends."""

import errno
import hashlib
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from . import timeouts

log = logging.getLogger("vla_runtime")
log.addHandler(logging.NullHandler())  # until start_run opens the rank's log

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class UserError(Exception):
    """Something the user can mend. The message says what, where, why and how; it is shown without a stack trace."""


class Stopped(Exception):
    """A signal ended the run after the current update.

    Attributes:
        signal: its number; the process exits with 128 + this.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


def run_or_explain(main: Callable[[], None]) -> None:
    """Runs a program's `main` and turns how it ended into messages and an exit status.

    - returns: the process goes on to its end with status 0;
    - `UserError`, or a full disk: the message alone, printed by the first process of this node that has it, status 2;
    - `Stopped`: 128 + the signal's number;
    - any other exception: the first process that fails prints its traceback, the others (which mostly fail because it did) one
      line that names their log; status 1.

    The failure also goes to the rank's log and to the error file that torchrun gives each process, from which launchers report.
    A failing process ends at once: background threads that wait for dead peers are not joined.
    """
    get_error_handler().initialize()
    try:
        main()
    except Stopped as stopped:
        sys.exit(128 + stopped.signal)  # everything is closed, so nothing holds the process up
    except Exception as error:
        message = explanation(error)
        if message is not None:
            log.error(message)
            first = _first_with(message)
            _write_error_file(f"UserError: {message}", message, first=first)
            if first:
                print(f"error: {message}", file=sys.stderr)
            _leave(2)
        trace = traceback.format_exc().rstrip() + _about_waiting(error)
        log.error(trace)
        first = _first_with("an unexpected failure")
        _write_error_file(f"{type(error).__name__}: {error}", trace, first=first)
        rank = os.environ.get("RANK", "0")
        if first:
            print(f"rank {rank} failed:\n{trace}", file=sys.stderr)
        else:
            print(f"rank {rank} failed after that ({type(error).__name__}); its log has the traceback", file=sys.stderr)
        _leave(1)


def explanation(error: BaseException) -> str | None:
    """What a user needs to know about an error that is theirs to mend, or None."""
    if isinstance(error, UserError):
        return str(error)
    full = disk_full(error)
    return (
        None if full is None else f"{full}. Make room and start again; a run resumes from its last complete checkpoint."
    )


def disk_full(error: BaseException) -> str | None:
    """What to call an error that says that there is no room to write, or None."""
    if not isinstance(error, OSError) or error.errno not in _DISK_FULL:
        return None
    where = f" at {error.filename}" if error.filename else ""
    return f"the disk is full{where} ({error.strerror})"


def _about_waiting(error: BaseException) -> str:
    """Which wait ended, for an error of a collective that ran into its time limit."""
    text = str(error).lower()
    if "timed out" not in text and "timeout" not in text:
        return ""
    limits = ", ".join(
        f"{name.lower()} {int(limit.total_seconds())} s" for name, limit in vars(timeouts).items() if name.isupper()
    )
    return (
        f"\nA wait for the other processes ended at its limit (vla_runtime/timeouts.py: {limits}). "
        "Another rank was slower than that or is gone; the last lines of each rank's log show where it stood."
    )


def _write_error_file(message: str, trace: str, *, first: bool) -> None:
    """Writes what torchrun, and whoever started it, reads about this process: the format of torch's `record`.

    torchrun calls the process with the smallest timestamp the root cause. It compares whole seconds and takes the lower rank of two
    that are equal; so those that failed after the first one write the second after.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        more = {"py_callstack": trace, "timestamp": str(int(time.time()) + (0 if first else 1))}
        Path(path).write_text(json.dumps({"message": {"message": message, "extraInfo": more}}), encoding="utf-8")


def _first_with(what: str) -> bool:
    """Whether this process is the first of its node, in this launch, to have something to say. Without torchrun: yes."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return True
    name = f"said-{hashlib.sha256(what.encode()).hexdigest()[:16]}"  # .../attempt_0/<local rank>/error.json
    try:
        os.close(os.open(Path(path).parent.parent / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    except OSError:
        return True  # better twice than never
    return True


def _leave(status: int) -> NoReturn:
    """Ends the process without joining threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    os._exit(status)
