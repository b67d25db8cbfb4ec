"""The user's hooks, here the tests': kills at a point, and things that go wrong in an update.

`VLA_TEST` is a JSON object. `kill`: {point, who: rank0 | rank1 | all | launcher, nth}. `nan`: updates in which rank 1 sees NaN in the
trunk's gradient. `slow`: seconds that each update takes longer, `hold`: update that waits for a file named go, `slow_writer`: seconds
that a staged checkpoint waits. `stop`: update in which rank 0 gets SIGTERM. `crash`: update in which rank 1 fails. `no_copy`: staging
hands on the live tensors (a mutant).
"""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

from torch import Tensor, nn
from torch.distributed.checkpoint.staging import DefaultStager
from vla_runtime import points

_TEST = json.loads(os.environ.get("VLA_TEST", "{}"))
_RANK = int(os.environ.get("RANK", "0"))
_ON_RANK_ZERO_ONLY = {"before marker", "after marker", "pruning"}
_seen: Counter[str] = Counter()


def _workers() -> dict[int, int]:
    """rank -> pid, from the run's lock."""
    processes = json.loads(Path("runs/kill-test/lock").read_text(encoding="utf-8"))["processes"]
    return {rank: pid for rank, (_, pid) in enumerate(processes)}


def _kill(name: str) -> None:
    kill = _TEST["kill"]
    if name != kill["point"]:
        return
    trigger = 1 if kill["who"] == "rank1" and name not in _ON_RANK_ZERO_ONLY else 0
    _seen[name] += 1
    if trigger != _RANK or _seen[name] != kill["nth"]:
        return
    Path("killed").write_text(json.dumps(kill), encoding="utf-8")
    match kill["who"]:
        case "launcher":
            os.kill(os.getppid(), signal.SIGKILL)
        case "all":
            for _, pid in sorted(_workers().items(), key=lambda item: item[1] == os.getpid()):
                os.kill(pid, signal.SIGKILL)
        case who:
            os.kill(_workers()[int(who.removeprefix("rank"))], signal.SIGKILL)


def _reached(name: str) -> None:
    if name == "staged":
        time.sleep(_TEST.get("slow_writer", 0))
    if "kill" in _TEST:
        _kill(name)


points.reached = _reached
if _TEST.get("no_copy"):
    DefaultStager.stage = lambda self, state_dict, **_: state_dict


def before_step(update: int, model: nn.Module, norms: dict[str, Tensor]) -> None:
    """Called after the backward of each update."""
    if update in _TEST.get("nan", []) and _RANK == 1:
        norms["language"].fill_(float("nan"))
    if update == _TEST.get("stop") and _RANK == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    if update == _TEST.get("crash") and _RANK == 1:
        raise RuntimeError("the camera is on fire")
    while update == _TEST.get("hold") and not Path("go").exists():
        time.sleep(0.02)
    time.sleep(_TEST.get("slow", 0))
