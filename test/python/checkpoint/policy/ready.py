"""Checks that could only be made on the target. train.py runs them before anything is allocated on a device."""

from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Raises a UserError with everything that was found, the same on every rank."""
    check.versions(run, {"torch": "2.11", "lerobot": "0.6.1", "transformers": "5.5"})
    check.world(run, processes=2)
    check.dataset(
        run,
        "dataset",
        features=["observation.image", "observation.state", "action"],
        action="action",
        action_dim=3,
        state="observation.state",
        state_dim=2,
        fps=10.0,
        fingerprint=None,
    )
    check.disk_space(run, bytes_needed=1_000_000)
    check.report(run)
