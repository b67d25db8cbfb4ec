"""The global order of a run's samples, and the loader that hands them out.

A run has one global sample counter. Sample number `g` belongs to update `g // global_batch` at position `g % global_batch`; which frame
it is, and every random number that it needs, follow from (seed, g) alone. So resuming needs one integer, and no two ranks share a sample.
"""

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from .datasets import Source
from .mesh import global_sum

ORDER = 1  # stream of random numbers; the others are in data.py and policies/samples.py
FIXED = (
    -1
)  # stands for the update in keys of samples that are not trained on: evaluation's view, noise that never changes
REFERENCE_SAMPLES = 4
GOLDEN = 0.6180339887498949  # fractional part of the golden ratio: spreads a mixture evenly over any stretch of samples

Key = tuple[int, int, int, int]  # (update or FIXED, position in the global batch, dataset, frame)


class Order:
    """Which frame is global sample number g: a fresh permutation of each dataset per epoch, datasets interleaved by weight."""

    def __init__(self, seed: int, frames: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
        self._seed = seed
        self._frames = [np.asarray(f, dtype=np.int64) for f in frames]
        edges = np.cumsum(np.asarray(weights, dtype=np.float64))
        self._edges = edges / edges[-1]
        self._permutations: dict[int, tuple[int, np.ndarray]] = {}

    def counts(self, samples: int) -> np.ndarray:
        """How many of the first `samples` samples each dataset gave."""
        if len(self._frames) == 1:
            return np.asarray([samples], dtype=np.int64)
        counts = np.zeros(len(self._frames), dtype=np.int64)
        for start in range(0, samples, 1 << 20):
            counts += np.bincount(self._choose(start, min(start + (1 << 20), samples)), minlength=len(counts))
        return counts

    def block(self, start: int, stop: int, counts: np.ndarray) -> list[tuple[int, int]]:
        """(dataset, frame) of samples start .. stop-1; `counts` is advanced in place."""
        block = []
        for source in self._choose(start, stop):
            epoch, offset = divmod(int(counts[source]), len(self._frames[source]))
            block.append((int(source), int(self._frames[source][self._permutation(int(source), epoch)[offset]])))
            counts[source] += 1
        return block

    def _choose(self, start: int, stop: int) -> np.ndarray:
        if len(self._frames) == 1:
            return np.zeros(stop - start, dtype=np.int64)
        spread = np.mod(np.arange(start, stop, dtype=np.float64) * GOLDEN, 1.0)
        return np.minimum(np.searchsorted(self._edges, spread, side="right"), len(self._frames) - 1)

    def _permutation(self, source: int, epoch: int) -> np.ndarray:
        cached = self._permutations.get(source)
        if cached is None or cached[0] != epoch:
            cached = (
                epoch,
                np.random.default_rng([self._seed, ORDER, source, epoch]).permutation(len(self._frames[source])),
            )
            self._permutations[source] = cached
        return cached[1]


class Keys:
    """This rank's share of the global order, a list of keys per micro-batch, without end."""

    def __init__(self, order: Order, samples: int, global_batch: int, micro_batch: int, rank: int, world: int) -> None:
        self._order, self._samples, self._global, self._micro, self._rank, self._world = (
            order,
            samples,
            global_batch,
            micro_batch,
            rank,
            world,
        )

    def __iter__(self) -> Iterator[list[Key]]:
        counts = self._order.counts(self._samples)
        update = self._samples // self._global
        while True:
            start = update * self._global
            block = self._order.block(start, start + self._global, counts)
            for first in range(self._rank * self._micro, self._global, self._micro * self._world):
                yield [(update, position, *block[position]) for position in range(first, first + self._micro)]
            update += 1


class AnyBatch(Protocol):
    """What the loader needs of a batch."""

    valid: Any
    """bool [B, C], or None where nothing is trained."""

    def to(self, device: torch.device, /) -> Self: ...


class View[B: AnyBatch](TorchDataset[Any], ABC):
    """Frames as a model wants them. Picklable for loader workers."""

    @abstractmethod
    def __getitem__(self, key: Key) -> Any:
        """One sample."""

    @abstractmethod
    def collate(self, samples: list[Any]) -> B:
        """Samples as a batch on the CPU."""


class OrderedSamples[B: AnyBatch]:
    """The samples of a run. `next_update` hands out the batches of the next update; `state` is one number."""

    def __init__(
        self,
        sources: list[Source],
        view: View[B],
        *,
        device: torch.device,
        mesh: DeviceMesh,
        global_batch: int,
        micro_batch: int,
        seed: int,
        workers: int,
    ) -> None:
        self.device = device
        self.mesh = mesh
        self.global_batch = global_batch
        self.micro_batch = micro_batch
        self.samples = 0  # the global sample counter
        self._sources = sources
        self._view = view
        self._workers = workers
        self._rank, self._world = mesh.get_rank(), mesh.size()
        self._order = Order(seed, [source.training for source in sources], [source.spec.weight for source in sources])
        self._batches: Iterator[B] | None = None

    def next_update(self, accumulation: int) -> list[B]:
        """The micro-batches of this rank for the next update, on the device.

        Raises:
            ValueError: accumulation x micro-batch x ranks is not the global batch.
        """
        if accumulation * self.micro_batch * self._world != self.global_batch:
            raise ValueError(
                f"{accumulation} x {self.micro_batch} x {self._world} ranks is not the global batch {self.global_batch}"
            )
        if self._batches is None:
            self._batches = iter(
                self._loader(
                    Keys(self._order, self.samples, self.global_batch, self.micro_batch, self._rank, self._world)
                )
            )
        batches = [next(self._batches).to(self.device) for _ in range(accumulation)]
        self.samples += self.global_batch
        return batches

    def state(self) -> dict[str, int]:
        """The position in the global order: samples handed out to all ranks together."""
        return {"samples": self.samples}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continues after that many samples, whatever the number of ranks was."""
        self.samples = int(state["samples"])
        self._batches = None

    def holdout(self) -> Iterator[B]:
        """The held-out frames, each once over all ranks, in evaluation's view and with fixed noise.

        Every rank gets the same number of batches: one that has no frames left gets a sample that does not count.
        """
        keys = [
            (FIXED, i, source_index, frame)
            for source_index, source in enumerate(self._sources)
            for i, frame in enumerate(source.held_out)
        ]
        step = self.micro_batch * self._world
        for start in range(0, len(keys), step):
            block = keys[start : start + step]
            mine = block[self._rank * self.micro_batch : (self._rank + 1) * self.micro_batch]
            batch = self._view.collate([self._view[key] for key in mine or keys[:1]])
            if not mine and batch.valid is not None:
                batch.valid[:] = False
            yield batch.to(self.device)

    def _reference_frames(self) -> list[tuple[int, int]]:
        """(source, frame) of the samples with which packages are compared: held-out ones where there are any."""
        frames = [
            (source_index, frame)
            for source_index, source in enumerate(self._sources)
            for frame in (source.held_out or source.training)
        ]
        return [frames[round(i)] for i in np.linspace(0, len(frames) - 1, REFERENCE_SAMPLES)]

    def _loader(self, keys: Keys) -> DataLoader[Any]:
        return DataLoader(
            self._view,
            batch_sampler=keys,
            num_workers=self._workers,
            collate_fn=self._view.collate,
            # forked workers inherit the process group's threads
            multiprocessing_context="spawn" if self._workers else None,
            persistent_workers=False,
            worker_init_fn=_leave_stopping_to_the_run,
            # else opening a loader draws from the global one, and a resumed run drops out otherwise
            generator=torch.Generator(),
        )


def _leave_stopping_to_the_run(_worker: int) -> None:
    """torchrun passes signals to whole process groups; the run still needs its samples to end the present update."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def holdout_loss(model: Any, data: OrderedSamples[Any], mesh: DeviceMesh) -> float:
    """Mean loss per valid element over the held-out episodes; every rank takes part and gets the same number.

    Args:
        model: `model(batch)` gives losses and `model.valid_count(batch)` their number: of one loss, or [T] of each term of a loss, whose
            means are then added up.
        data: the samples of the run.
        mesh: of the run.
    """
    was_training = model.training
    model.eval()
    totals: Tensor | None = None
    valid: Tensor | None = None
    with torch.no_grad():
        for batch in data.holdout():
            count = model.valid_count(batch)
            losses = model(batch)
            losses = (losses if count.ndim else losses.sum()).to(torch.float64)
            totals = losses if totals is None else totals + losses
            valid = count.to(torch.float64) if valid is None else valid + count
    model.train(was_training)
    if totals is None or valid is None:
        return float("nan")
    return float((global_sum(totals, mesh) / global_sum(valid, mesh)).sum())
