"""Conversions by the layouts that they lie between."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vla_runtime.errors import UserError

from .answers import Request
from .places import free, written_whole
from .to_lerobot import openpi_to_lerobot
from .to_openpi import lerobot_to_openpi
from .verify import Job, verify

Conversion = Callable[[Request, Path], tuple[Job, dict[str, Any]]]
CONVERSIONS: dict[tuple[str, str], Conversion] = {
    ("openpi", "lerobot"): openpi_to_lerobot,
    ("lerobot", "openpi"): lerobot_to_openpi,
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
        actions, statistics = told["actions"], told["statistics"]
        print(
            f"loaded in a fresh process; largest difference of an action {actions['largestDifference']:.2g} of {actions['tolerance']:g} "
            f"allowed ({actions['dtype']}; against {actions['against']}), of a normalised value {statistics['largestDifference']:.2g} "
            f"of {statistics['tolerance']:g}",
            flush=True,
        )
        if not told["agrees"]:
            raise UserError(
                f"What was written acts differently from {request.source}: an action by {actions['largestDifference']:.3g} "
                f"({actions['tolerance']:g} allowed; against {actions['against']}), a normalised value by "
                f"{statistics['largestDifference']:.3g} ({statistics['tolerance']:g} allowed). It was removed. Where a reference was "
                "given, it may be of other weights, another camera order, chunk or number of steps."
            )
        (partial / "verification.json").write_text(json.dumps(told, indent=2) + "\n")
    return {"conversion": facts, "verification": told}
