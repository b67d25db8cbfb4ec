"""Launches the test project as torchrun does, from a process that has already imported torch: the grid of kills has many launches.

Reads one JSON object per line from stdin, {folder, world, arguments, environment, output, port, file_bytes, disk_bytes}, and answers
with the launcher's pid, later with its status. A launcher of its own process forks the workers, ends the others when one fails, and passes signals on, so that it
can be killed as torchrun can. Real torchrun launches are tested beside it.
"""

import ctypes
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

GRACE_S = 10.0  # between SIGTERM and SIGKILL, torchrun: 30


def _preload() -> None:
    """Imports what train.py will import. The project's and the runtime's own modules are then forgotten."""
    import vla_runtime.checkpoints
    import vla_runtime.optim
    import vla_runtime.preflight  # noqa: F401

    for name in [name for name in sys.modules if name.partition(".")[0] == "vla_runtime"]:
        del sys.modules[name]


def _worker(task: dict[str, Any], rank: int, port: int, errors: str) -> NoReturn:
    os.setsid()  # as torchrun, which signals the group
    folder = Path(errors) / "attempt_0" / str(rank)
    folder.mkdir(parents=True)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(task["world"]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test",
        "TORCHELASTIC_ERROR_FILE": str(folder / "error.json"),
    }
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    sys.argv = ["train.py", *task["arguments"]]
    sys.path.insert(0, task["folder"])
    status = 0
    try:
        runpy.run_path("train.py", run_name="__main__")
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:
        print(f"rank {rank}: {error!r}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _launcher(task: dict[str, Any]) -> NoReturn:
    """Forks the workers and waits for them."""
    os.setsid()
    os.chdir(task["folder"])
    os.environ |= task["environment"]
    output = os.open(task["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    port = task["port"] or _free_port()
    if task["file_bytes"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["file_bytes"], task["file_bytes"]))
    if task["disk_bytes"]:
        _small_disk(Path("runs"), task["disk_bytes"])
    errors = tempfile.mkdtemp(prefix="errors-", dir=task["folder"])
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    workers: dict[int, int] = {}
    for rank in range(task["world"]):
        pid = os.fork()
        if pid == 0:
            _worker(task, rank, port, errors)
        workers[pid] = rank
    status = 0
    deadline = float("inf")
    while workers:
        pid, wait_status = os.waitpid(-1, os.WNOHANG)
        if pid:
            del workers[pid]
            code = os.waitstatus_to_exitcode(wait_status)
            status = status or code
            if code != 0 and workers and deadline == float("inf"):
                signals.append(signal.SIGTERM)
        while signals:
            deadline = min(deadline, time.monotonic() + GRACE_S)
            number = signals.pop()
            for pid in workers:
                _signal_group(pid, number)
        if time.monotonic() > deadline:
            for pid in workers:
                _signal_group(pid, signal.SIGKILL)
        time.sleep(0.01)
    if task["disk_bytes"]:
        shutil.copytree("runs", "runs-then")  # the small disk ends with this process
    os._exit(abs(status))


def _signal_group(pid: int, number: int) -> None:
    """Signals a worker and its children; a worker that has only just been forked has no group yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _small_disk(folder: Path, size: int) -> None:
    """Mounts a tmpfs of so many bytes there, seen by this process and its children alone. PermissionError where the kernel forbids."""
    uid, gid = os.getuid(), os.getgid()
    folder.mkdir(exist_ok=True)
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def main() -> None:
    """Serves until stdin closes."""
    _preload()
    subreaper = 36  # PR_SET_CHILD_SUBREAPER: orphans of killed launchers are reaped here
    ctypes.CDLL(None).prctl(subreaper, 1, 0, 0, 0)
    launchers: set[int] = set()
    print(json.dumps({"ready": True}), flush=True)
    buffer = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.02)
        if readable:
            data = os.read(0, 1 << 16)
            if not data:
                break
            buffer += data
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                pid = os.fork()
                if pid == 0:
                    _launcher(json.loads(line))
                launchers.add(pid)
                print(json.dumps({"started": pid}), flush=True)
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            continue
        if pid in launchers:
            launchers.discard(pid)
            print(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
