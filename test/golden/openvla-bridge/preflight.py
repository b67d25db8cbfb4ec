"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device.

Written by `vla build` 0.1.0 from pipeline.ts (plan eb923a39). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5"})
    check.world(run, processes=8)
    check.devices(run, gpu="H100", memory_bytes=85_899_345_920)
    # 3 checkpoints that are kept and the one being written, 84 GiB each
    check.disk_space(run, bytes_needed=360_600_809_472)
    check.report(run)
