"""The plain twin of joint attention stands with the twins of training."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "training"))
