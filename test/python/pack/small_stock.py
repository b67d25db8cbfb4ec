"""`vla_runtime/pack/stock.py`, in a process where pi0 and pi0.5 are built small: LeRobot has no option for their size."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def module(path: Path) -> Any:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


if __name__ == "__main__":
    sys.path.append(str(ROOT / "test/python/policies"))
    stock = module(ROOT / "templates/runtime/vla_runtime/pack/stock.py")
    job = stock.read_job(sys.argv[1])
    import tiny

    with tiny.small():
        stock.main(*sys.argv[1:])
