"""The datasets and small policies of other tests."""

import sys
from pathlib import Path

for folder in ("policies", "data"):
    sys.path.append(str(Path(__file__).parent.parent / folder))
