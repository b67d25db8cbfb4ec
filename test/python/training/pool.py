"""Processes that are started once per test session and are handed one task after the other, each on all of them."""

import multiprocessing
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

TIMEOUT_S = 120.0  # of a collective, and of a task's last answer after the first


class RemoteError(Exception):
    """A task raised; the message holds the ranks' tracebacks."""


def _serve(rank: int, world: int, store: str, connection: Connection) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    import torch
    import torch.distributed as dist
    from torch.distributed import FileStore  # pyright: ignore[reportPrivateImportUsage]

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=FileStore(store, world), rank=rank, world_size=world, timeout=timedelta(seconds=TIMEOUT_S)
    )
    while True:
        try:
            task = connection.recv_bytes()
        except EOFError:
            break
        try:
            function, arguments = pickle.loads(task)
            answer = pickle.dumps((True, function(**arguments)))
        except BaseException:
            answer = pickle.dumps((False, traceback.format_exc()))
        connection.send_bytes(answer)


class Pool:
    """`world` gloo processes on one machine.

    A rank that fails while others wait for it would hold them until gloo's timeout: the pool is then killed and started anew
    with the next task.
    """

    def __init__(self, world: int, preload: str = "twins") -> None:
        self.world = world
        self._preload = preload  # module that the processes have imported before they start
        self._connections: list[Connection] = []
        self._processes: list[multiprocessing.Process] = []

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")  # imports once, so that a pool starts again within a second
        context.set_forkserver_preload([self._preload])
        handle, store = tempfile.mkstemp(prefix="vla-pool-")
        os.close(handle)
        os.unlink(store)
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        with patch.dict(os.environ, PYTHONPATH=path):  # the server, which starts with the first process, knows no other
            for rank in range(self.world):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(rank, self.world, store, theirs), daemon=True)
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)  # pyright: ignore[reportArgumentType] - a ForkServerProcess is one

    def run(self, function: Callable[..., Any], **arguments: Any) -> list[Any]:
        """Calls `function(**arguments)` on every rank (it must be importable) and returns the results in rank order."""
        if not self._processes:
            self._start()
        task = pickle.dumps((function, arguments))
        for connection in self._connections:
            connection.send_bytes(task)
        answers: dict[int, tuple[bool, Any]] = {}
        while len(answers) < self.world:
            pending = [c for rank, c in enumerate(self._connections) if rank not in answers]
            failed = any(not ok for ok, _ in answers.values())
            ready = wait(pending, timeout=5 if failed else TIMEOUT_S * 3)
            if not ready:
                break
            for connection in ready:
                rank = self._connections.index(connection)  # pyright: ignore[reportArgumentType]
                try:
                    answers[rank] = pickle.loads(self._connections[rank].recv_bytes())
                except (EOFError, ConnectionError):
                    answers[rank] = (False, "the process ended")
        broken = len(answers) < self.world or any(value == "the process ended" for _, value in answers.values())
        if broken:
            self.close()
        if broken or not all(ok for ok, _ in answers.values()):
            raise RemoteError(
                "\n".join(f"rank {rank}: {value}" for rank, (ok, value) in sorted(answers.items()) if not ok)
            )
        return [answers[rank][1] for rank in range(self.world)]

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for connection in self._connections:
            connection.close()
        self._processes, self._connections = [], []
