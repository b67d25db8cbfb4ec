"""python -m vla_convert REQUEST REPORT"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from vla_runtime.errors import UserError, explanation

from .answers import Request
from .convert import convert


def main(request: str, report: str) -> int:
    """Exit status: 0 done, 2 the report has a message for the user."""
    logging.disable(logging.WARNING)
    told: dict[str, Any]
    try:
        told = {"ok": True, **convert(Request.parse(json.loads(Path(request).read_text(encoding="utf-8"))))}
    except (UserError, OSError) as error:
        message = explanation(error) or _file_system(error)
        if message is None:
            raise
        told = {"ok": False, "message": message}
    Path(report).write_text(json.dumps(told), encoding="utf-8")
    return 0 if told["ok"] else 2


def _file_system(error: Exception) -> str | None:
    """What an error says of a path that the user named: no permission, a file where a folder is meant, a file that is gone."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return None
    return f"{error.filename}: {error.strerror}. Choose another folder, or change its permissions."


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
