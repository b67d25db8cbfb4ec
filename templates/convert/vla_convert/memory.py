"""What a process holds."""

import os
import resource
import sys
from pathlib import Path


def resident() -> int:
    """Bytes that are in memory now, of mapped files too; where the system does not tell, the most so far."""
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return peak()


def peak() -> int:
    """The most bytes that were in memory at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
