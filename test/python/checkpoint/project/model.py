"""A policy of a few thousand fp64 parameters: a tower with a dead last block, a trunk with dropout, a head."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from settings import SETTINGS
from torch import Tensor, nn
from vla_runtime.partition import AllTrain, Frozen, LastLayers, Lora, Module, Partition

if TYPE_CHECKING:
    from vla_runtime.lora import Adapters

CHUNK, ACTION, INPUTS = 3, 2, 5


@dataclass
class Batch:
    """inputs [B, 5]; actions [B, 3, 2]; valid [B, 3]."""

    inputs: Tensor
    actions: Tensor
    valid: Tensor


class Block(nn.Module):
    """A residual MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(SETTINGS.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, D] -> [B, D]."""
        return x + self.down(self.dropout(torch.tanh(self.up(self.norm(x)))))


class Tower(nn.Module):
    """Four blocks, of which the last is there and never used, as in OpenVLA's towers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """x [B, 5] -> [B, D]."""
        x = self.first(x)
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class Trunk(nn.Module):
    """Two blocks and a persistent buffer that every forward in training changes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(2))
        self.seen: Tensor
        self.table: Tensor
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))
        self.register_buffer("table", torch.arange(width, dtype=torch.float64) / width, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, D] -> [B, D]."""
        if self.training:
            self.seen += 1
        x = x + self.table
        for layer in self.layers:
            x = layer(x)
        return x


class Policy(nn.Module):
    """The protocol of ComposedVLA."""

    def __init__(self) -> None:
        super().__init__()
        width = SETTINGS.width
        self.vision_backbone = Tower(width)
        self.language_model = Trunk(width)
        self.action_head = nn.Linear(width, CHUNK * ACTION)

    def predict(self, batch: Batch) -> Tensor:
        """Actions [B, C, A]."""
        return self.action_head(self.language_model(self.vision_backbone(batch.inputs))).unflatten(-1, (CHUNK, ACTION))

    def forward(self, batch: Batch) -> Tensor:
        """Losses [B, C, A], zero where padded."""
        return (self.predict(batch) - batch.actions).abs() * batch.valid[..., None]

    def valid_count(self, batch: Batch) -> Tensor:
        """Number of losses that count."""
        return batch.valid.sum() * ACTION


def build_model() -> Policy:
    """The policy in fp64."""
    return Policy().double()


def modules() -> list[Module]:
    """The tower is frozen at first; then its last two live blocks train."""
    frozen = SETTINGS.freeze > 0
    return [
        Module(
            "vision",
            parameters=["vision_backbone.*"],
            blocks=["vision_backbone.blocks.*"],
            dead=["vision_backbone.blocks.3.*"],
            lr=1e-2,
            dtype="fp64",
            freeze=[Frozen(until=SETTINGS.freeze), LastLayers(2, rewarm=2)] if frozen else [AllTrain()],
        ),
        Module(
            "language",
            parameters=["language_model.*"],
            blocks=["language_model.layers.*"],
            lr=1e-2,
            weight_decay=0.1,
            dtype="fp64",
            lora=Lora(rank=SETTINGS.lora, alpha=8.0, dropout=SETTINGS.dropout, targets=["up"])
            if SETTINGS.lora
            else None,
        ),
        Module("action", parameters=["action_head.*"], lr=1e-2, weight_decay=0.1, dtype="fp64"),
    ]


def adapted(model: Policy, partition: Partition) -> "Adapters | None":
    """Injects the declared adapters."""
    if not SETTINGS.lora:
        return None
    from vla_runtime.lora import adapt  # peft takes seconds to import, and most tests have no adapters

    return adapt(model, partition, seed=7)
