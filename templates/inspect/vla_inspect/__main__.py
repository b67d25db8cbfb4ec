"""python -m vla_inspect REQUEST REPORT"""

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from vla_runtime.errors import UserError, explanation

from .look import Request, look


def main(request: str, report: str) -> int:
    """Exit status: 0 done, 2 the report has a message for the user."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    told: dict[str, Any]
    try:
        told = {"ok": True, **look(Request(**json.loads(Path(request).read_text(encoding="utf-8"))))}
    except (UserError, OSError) as error:
        message = explanation(error)
        if message is None:
            raise
        told = {"ok": False, "message": message}
    Path(report).write_text(json.dumps(told), encoding="utf-8")
    return 0 if told["ok"] else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
