"""As a generated preflight.py."""

from settings import SETTINGS
from vla_runtime import preflight as check
from vla_runtime.run import Run


def preflight(run: Run) -> None:
    """Runs before anything is allocated."""
    check.versions(run, {"torch": "2.11"})
    check.world(run, processes=SETTINGS.world)
    check.devices(run, gpu=None, memory_bytes=None)
    check.disk_space(run, bytes_needed=1)
    check.report(run)
