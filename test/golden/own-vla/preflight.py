"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device.

Written by `vla build` 0.1.0 from pipeline.ts (plan 84804671). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5"})
    check.world(run, processes=16)
    check.devices(run, gpu="H100", memory_bytes=85_899_345_920)
    check.dataset(
        run,
        "../../data/arm_a",
        features=["observation.images.cam_high", "observation.images.cam_right", "observation.state", "action"],
        action="action",
        action_dim=7,
        state="observation.state",
        state_dim=7,
        fps=30.0,
        fingerprint="13f288004848d7e4c5b352a3f34280e783c93a703351b1078c7b22e3ee2ff19b",
    )
    check.dataset(
        run,
        "../../data/arm_b",
        features=["observation.images.hand", "observation.images.main", "observation.state", "action"],
        action="action",
        action_dim=7,
        state="observation.state",
        state_dim=7,
        fps=30.0,
        fingerprint="64f74a9fc0adb5342a35a718f3235745835c53982001f3784f0f250c3126ccdd",
    )
    # 3 checkpoints that are kept and the one being written, 14.2 GiB each
    check.disk_space(run, bytes_needed=61_199_511_888)
    check.report(run)
