"""A policy of a few thousand parameters with the protocol of ComposedVLA: for what does not depend on the real model."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F
from vla_runtime.modeling.batch import Batch
from vla_runtime.partition import Module

WIDTH, CHUNK, ACTION, STATE, VOCAB, PATCHES = 16, 3, 2, 3, 40, 4


class Block(nn.Module):
    """Attention and MLP, each with a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """x [B, L, D], mask [B, L, L] (True: may see)."""
        y = self.norm1(x)
        scores = self.q_proj(y) @ self.k_proj(y).transpose(1, 2) / x.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        x = x + scores.softmax(-1) @ self.v_proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Tower(nn.Module):
    """A small ViT whose last block is computed for nothing, as in OpenVLA."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, 4)
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [B, 3, 8, 8] -> [B, 4, D], from the block before the last."""
        x = self.patch(images).flatten(2).transpose(1, 2)
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class Trunk(nn.Module):
    """Token embedding, blocks, norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(
        self, patches: torch.Tensor, prompt: torch.Tensor, state: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """patches [B, N, D], prompt [B, L], state [B, 1, D], mask [B, N + L + 1, N + L + 1]."""
        x = torch.cat([patches, self.embed_tokens(prompt), state], 1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


def cast(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """x in the dtype in which `module` computes."""
    dtype = getattr(module, "compute_dtype", None)
    return x if dtype is None else x.to(dtype)


class Toy(nn.Module):
    """L1 regression of an action chunk from images, prompt and state."""

    def __init__(self, mask: Literal["causal", "full"] = "full") -> None:
        super().__init__()
        self.mask = mask
        self.vision_backbone = Tower()
        self.projector = nn.Linear(WIDTH, WIDTH)
        self.state_projector = nn.Linear(STATE, WIDTH)
        self.language_model = Trunk()
        self.action_head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, CHUNK * ACTION))

    def predict(self, batch: Batch) -> torch.Tensor:
        """Actions [B, C, A]."""
        assert batch.state is not None
        patches = self.vision_backbone(cast(self.vision_backbone, batch.images["front"]))
        patches = self.projector(cast(self.projector, patches))
        state = self.state_projector(cast(self.state_projector, batch.state))[:, None]
        one = batch.prompt_mask.new_ones(batch.size, 1)
        seen = torch.cat([one.expand(-1, PATCHES), batch.prompt_mask, one], 1)
        mask = seen[:, None, :].expand(-1, seen.shape[1], -1)
        if self.mask == "causal":
            mask = mask.tril()
        x = self.language_model(
            cast(self.language_model, patches), batch.prompt, cast(self.language_model, state), mask
        )
        x = x[:, :PATCHES].mean(1) + x[:, -1]
        return self.action_head(cast(self.action_head, x)).unflatten(-1, (CHUNK, ACTION))

    def forward(self, batch: Batch) -> torch.Tensor:
        """Losses [B, C, A], zero where the action is padding."""
        assert batch.actions is not None and batch.valid is not None
        losses = (self.predict(batch).to(batch.actions.dtype) - batch.actions).abs()
        return losses * batch.valid[..., None]

    def valid_count(self, batch: Batch) -> torch.Tensor:
        """Number of losses that count."""
        assert batch.actions is not None and batch.valid is not None
        return batch.valid.sum() * batch.actions.shape[-1]


def toy_modules(**changes: Mapping[str, object]) -> list[Module]:
    """The toy's modules; `changes` are per module."""
    declared: dict[str, dict[str, object]] = {
        "vision": {
            "parameters": ["vision_backbone.*"],
            "blocks": ["vision_backbone.blocks.*"],
            "dead": ["vision_backbone.blocks.3.*", "vision_backbone.norm.*"],
            "lr": 3e-3,
            "weight_decay": 0.05,
        },
        "projector": {"parameters": ["projector.*", "state_projector.*"], "lr": 1e-2, "weight_decay": 0.01},
        "language": {
            "parameters": ["language_model.*"],
            "blocks": ["language_model.layers.*"],
            "lr": 5e-3,
            "weight_decay": 0.1,
        },
        "action": {"parameters": ["action_head.*"], "lr": 1e-2, "weight_decay": 0.1},
    }
    return [Module(name, **{**values, **changes.get(name, {})}) for name, values in declared.items()]  # pyright: ignore[reportArgumentType]
