"""What a process holds. Linux tells in /proc; elsewhere the rusage is taken, which may count what the parent held."""

import resource
import sys
from pathlib import Path


def resident() -> int:
    """Bytes that are in memory now, of mapped files too; where the system does not tell, the most so far."""
    return _status("VmRSS") or peak()


def peak() -> int:
    """The most bytes that were in memory at once.

    On Linux not from the rusage: a process that is started by `exec` inherits the figure of the one that started it.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM") or usage * (1 if sys.platform == "darwin" else 1024)


def _status(field: str) -> int | None:
    file = Path("/proc/self/status")
    if not file.is_file():
        return None
    line = next((line for line in file.read_text().splitlines() if line.startswith(f"{field}:")), None)
    return None if line is None else int(line.split()[1]) * 1024
