"""Named points of a run at which tests stop processes.

In production `reached` does nothing. A test replaces it (from hooks.py, which train.py imports first) by a function that kills a
process: `vla_runtime.points.reached = kill`. Callers therefore say `points.reached(name)` and never import the function.
"""

from collections.abc import Callable

POINTS = (
    "preflight",  # while the checks run, nothing is allocated
    "between updates",
    "before staging",  # a checkpoint is due, nothing is written
    "staged",  # the weights are copied, nothing is written
    "shards written",  # every rank's tensors are on the disk
    "before marker",  # everything but the marker is on the disk
    "after marker",  # the marker is written, the directory still has its temporary name
    "pruning",  # an old checkpoint has lost its name, its files are still there
)


def _go_on(name: str) -> None:
    """Production: nothing happens at a point."""


reached: Callable[[str], None] = _go_on
