"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device.

Written by `vla build` 0.1.0 from pipeline.ts (plan 4644000a). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5", "mujoco": "3.3.7"})
    check.world(run, processes=2)
    check.dataset(
        run,
        "../../data/metaworld",
        features=["observation.image", "observation.state", "action"],
        action="action",
        action_dim=4,
        state="observation.state",
        state_dim=4,
        fps=80.0,
        fingerprint="3460ea17dbbc00046af39d5044aa8e80d7f50f2ed26cfcfc45b43a69ac81a5b0",
    )
    # 2 checkpoints that are kept and the one being written, 5.21 MiB each
    check.disk_space(run, bytes_needed=16_374_420)
    check.report(run)
