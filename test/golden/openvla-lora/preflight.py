"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device.

Written by `vla build` 0.1.0 from pipeline.ts (plan c2952b3b). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5"})
    check.world(run, processes=4)
    check.devices(run, gpu="A100", memory_bytes=85_899_345_920)
    check.dataset(
        run,
        "../../data/kitchen",
        features=["observation.images.front", "action"],
        action="action",
        action_dim=7,
        state=None,
        state_dim=None,
        fps=10.0,
        fingerprint="3171d89ad00530ffa19a244f040e9401a657903cbbbca724996b90a56df2c189",
    )
    # 3 checkpoints that are kept and the one being written, 15.3 GiB each
    check.disk_space(run, bytes_needed=65_562_816_000)
    check.report(run)
