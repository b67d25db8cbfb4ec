"""Invented samples with the protocol of vla_runtime.data.Samples: what a sample is follows from (seed, its global number) alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from model import ACTION, CHUNK, INPUTS, Batch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh


@dataclass
class Reference:
    """Raw inputs and the trainer's batch."""

    images: dict[str, Tensor]
    instructions: list[str]
    state: Tensor | None
    noise: Tensor | None
    datasets: list[str]
    batch: Batch


class Samples:
    """An endless stream."""

    def __init__(self, mesh: DeviceMesh, *, global_batch: int, micro_batch: int, seed: int) -> None:
        self.rank, self.world = mesh.get_rank(), mesh.size()
        self.global_batch, self.micro_batch, self.seed = global_batch, micro_batch, seed
        self.samples = 0
        self.normalization: dict[str, str] = {"action": "identity"}

    def next_update(self, accumulation: int) -> list[Batch]:
        """This rank's micro-batches."""
        start = self.samples + self.rank * self.micro_batch
        step = self.micro_batch * self.world
        self.samples += self.global_batch
        return [self.batch(range(start + i * step, start + i * step + self.micro_batch)) for i in range(accumulation)]

    def batch(self, numbers: Sequence[int]) -> Batch:
        """The samples of these global numbers."""
        draws = [torch.Generator().manual_seed(self.seed * 1_000_003 + number) for number in numbers]
        inputs = torch.stack([torch.randn(INPUTS, generator=draw, dtype=torch.float64) for draw in draws])
        actions = torch.sin(inputs.sum(1))[:, None, None] * torch.arange(1, CHUNK * ACTION + 1).view(CHUNK, ACTION)
        lengths = torch.tensor([number % CHUNK + 1 for number in numbers])
        return Batch(inputs, actions, torch.arange(CHUNK)[None] < lengths[:, None])

    def state(self) -> dict[str, int]:
        """One number."""
        return {"samples": self.samples}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Goes on there."""
        self.samples = int(state["samples"])

    def reference_batch(self) -> Reference:
        """Two fixed samples."""
        batch = self.batch([1, 2])
        images = {"front": torch.zeros(2, 3, 4, 4, dtype=torch.uint8)}
        return Reference(images, ["reach", "close it"], batch.inputs, None, ["toy", "toy"], batch)

    def denormalize(self, actions: Tensor, datasets: Sequence[str]) -> Tensor:
        """In the dataset's units."""
        return actions * 2 + 1
