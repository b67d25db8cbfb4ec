"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device.

Written by `vla build` 0.1.0 from pipeline.ts (plan dd67b1b2). Change pipeline.ts and build again; hooks.py is yours.
"""

from model import POLICY
from vla_runtime import preflight as check
from vla_runtime.policies.processors import check_processors
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5", "mujoco": "3.3.7"})
    check.world(run, processes=2)
    check.dataset(
        run,
        "../../data/reach",
        features=["observation.image", "observation.state", "action"],
        action="action",
        action_dim=4,
        state="observation.state",
        state_dim=4,
        fps=80.0,
        fingerprint="af491db25d7a1fb39cb2bf27e7c87ee875110ffece36d7f0f2c373ddfcafee64",
    )
    check_processors(run, POLICY)  # tokenizers and base files are at hand
    # 2 checkpoints that are kept and the one being written, 136 MiB each
    check.disk_space(run, bytes_needed=426_470_544)
    check.report(run)
