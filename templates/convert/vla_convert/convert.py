"""Conversions by the layouts that they lie between."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vla_runtime.errors import UserError

from .answers import Request
from .jobs import Job, RenamedJob
from .places import free, written_whole
from .to_lerobot import openpi_to_lerobot
from .to_openpi import lerobot_to_openpi
from .verify import verify

OPENVLA = ("hf", "prismatic", "plugin")


def _between_openvla(request: Request, partial: Path) -> tuple[Job | RenamedJob, dict[str, Any]]:
    from .openvla import between_openvla  # transformers and timm, which the others do without for as long as they can

    return between_openvla(request, partial)


Conversion = Callable[[Request, Path], tuple[Job | RenamedJob, dict[str, Any]]]
CONVERSIONS: dict[tuple[str, str], Conversion] = {
    ("openpi", "lerobot"): openpi_to_lerobot,
    ("lerobot", "openpi"): lerobot_to_openpi,
    **{(source, target): _between_openvla for source in OPENVLA for target in OPENVLA if source != target},
}


def convert(request: Request) -> dict[str, Any]:
    """Converts, verifies, and puts the result in its place.

    Returns:
        what was done: `conversion` and `verification`, as they stand in the target.

    Raises:
        UserError: the conversion is not known, the source cannot be read, an answer is missing, the target is taken, or what was
            written acts differently.
    """
    pair = (request.source_layout, request.target_layout)
    if pair not in CONVERSIONS:
        known = ", ".join(f"{source}: to {target}:" for source, target in CONVERSIONS)
        raise UserError(f"{pair[0]}: to {pair[1]}: is no conversion. There are: {known}.")
    free(request.target)
    with written_whole(request.target) as partial:
        job, facts = CONVERSIONS[pair](request, partial)
        told = verify(job)
        print(told["summary"], flush=True)
        if not told["agrees"]:
            raise UserError(
                f"What was written acts differently from {request.source}, and was removed: {told['summary']}. Where a reference was "
                "given, it may be of other weights, another camera order, chunk or number of steps."
            )
        (partial / "verification.json").write_text(json.dumps(told, indent=2) + "\n")
    return {"conversion": facts, "verification": told}
