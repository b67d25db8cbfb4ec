"""Action decoders: discrete tokens (OpenVLA), L1 regression with parallel decoding (OpenVLA-OFT), flow matching (openpi's equations)."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ActionBins:
    """Actions in [-1, 1] as the last `bins` entries of the vocabulary, with OpenVLA's equations.

    `bins` edges give `bins - 1` centres; ids `vocabulary - bins` and `vocabulary - bins + 1` decode alike.
    """

    def __init__(self, bins: int, vocabulary: int) -> None:
        self.bins = bins
        self.vocabulary = vocabulary  # entries the tokenizer knows, without rows that only pad the embedding
        self.edges = torch.from_numpy(np.linspace(-1, 1, bins))  # numpy's, whose last bits differ from torch's

    @property
    def first(self) -> int:
        """The lowest id that stands for an action."""
        return self.vocabulary - self.bins

    def encode(self, actions: Tensor) -> Tensor:
        """Float actions -> int64 ids of the same shape: vocabulary - digitize(clip(a, -1, 1), linspace(-1, 1, bins))."""
        clipped = actions.to(torch.float64).clamp(-1, 1)
        return self.vocabulary - torch.bucketize(clipped, self.edges.to(actions.device), right=True)

    def decode(self, ids: Tensor) -> Tensor:
        """int64 ids -> fp64 bin centres of the same shape."""
        centres = ((self.edges[1:] + self.edges[:-1]) / 2).to(ids.device)
        return centres[(self.vocabulary - ids - 1).clamp(0, self.bins - 2)]


class ResidualBlock(nn.Module):
    """`x + ReLU(Linear(LayerNorm(x)))`, named as OpenVLA-OFT names it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ffn = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        return x + self.ffn(x)


class MLPResNet(nn.Module):
    """OpenVLA-OFT's head: LayerNorm, Linear, ReLU, residual blocks, LayerNorm, Linear."""

    def __init__(self, inputs: int, hidden: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(inputs)
        self.fc1 = nn.Linear(inputs, hidden)
        self.relu = nn.ReLU()
        self.mlp_resnet_blocks = nn.ModuleList(ResidualBlock(hidden) for _ in range(blocks))
        self.layer_norm2 = nn.LayerNorm(hidden)
        self.fc2 = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]."""
        x = self.relu(self.fc1(self.layer_norm1(x)))
        for block in self.mlp_resnet_blocks:
            x = block(x)
        return self.fc2(self.layer_norm2(x))


class RegressionHead(nn.Module):
    """Continuous actions from the trunk's hidden states at action slots, all in one pass.

    Args:
        width: of the trunk.
        chunk: actions per chunk (C).
        action_dim: width of an action (A).
        hidden: width of the head.
        blocks: residual blocks.
        slots: trunk tokens per action; OpenVLA-OFT uses one per action dimension.
        learnable: whether the slots' embeddings are learned (one each) or zero, as in OpenVLA-OFT.
    """

    def __init__(
        self, width: int, chunk: int, action_dim: int, hidden: int, blocks: int, slots: int, learnable: bool
    ) -> None:
        super().__init__()
        self.chunk, self.slots, self.width = chunk, slots, width
        self.queries = nn.Parameter(torch.empty(chunk * slots, width)) if learnable else None
        self.model = MLPResNet(width * slots, hidden, action_dim, blocks)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Queries as transformers initialises embeddings; the layers initialise themselves."""
        if self.queries is not None:
            nn.init.normal_(self.queries, std=0.02)

    def forward(self, hidden: Tensor | None) -> Tensor:
        """Hidden states at the slots [B, C * slots, width] -> actions [B, C, A]; None -> the queries [C * slots, width].

        The queries leave through `forward` too, because only there FSDP2 has gathered the parameters.
        """
        if hidden is None:
            if self.queries is None:
                raise ValueError("This head has zero queries; it has none to give.")
            return self.queries.clone()  # an output of the unit, not a view of its storage
        return self.model(hidden.reshape(hidden.shape[0], self.chunk, self.slots * self.width))


def time_embedding(time: Tensor, width: int, shortest: float = 4e-3, longest: float = 4.0) -> Tensor:
    """Sines and cosines of the flow's time with openpi's periods: float [B] -> [B, width]."""
    fraction = torch.linspace(0, 1, width // 2, dtype=time.dtype, device=time.device)
    period = shortest * (longest / shortest) ** fraction
    angle = time[:, None] * (2 * math.pi / period)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Attention(nn.Module):
    """Multi-head attention. Queries, keys and values have no bias: a key's bias never receives a gradient."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(context, width, bias=False)
        self.v = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor, allowed: Tensor) -> Tensor:
        """x [B, n, width] attends to context [B, m, context] where allowed (bool [B, n or 1, m])."""
        query, key, value = (
            projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projected in (self.q(x), self.k(context), self.v(context))
        )
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed.unsqueeze(1))
        return self.out(seen.transpose(1, 2).flatten(2))


class AdaptiveNorm(nn.Module):
    """LayerNorm whose scale and shift come from the time embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """x [B, n, width], time [B, width] -> [B, n, width]."""
        scale, shift = self.linear(F.silu(time)).unsqueeze(1).chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift


class FlowBlock(nn.Module):
    """One block of the diffusion transformer: among the actions, to the trunk, feed-forward."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.norm1, self.self_attention = AdaptiveNorm(width), Attention(width, heads, width)
        self.norm2, self.cross_attention = AdaptiveNorm(width), Attention(width, heads, context)
        self.norm3 = AdaptiveNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, time: Tensor, context: Tensor, among: Tensor, to: Tensor) -> Tensor:
        """x [B, C, width] -> the same; `among` bool [B, C, C] and `to` bool [B, 1, T] say who may be seen."""
        normed = self.norm1(x, time)
        x = x + self.self_attention(normed, normed, among)
        x = x + self.cross_attention(self.norm2(x, time), context, to)
        return x + self.fc2(F.gelu(self.fc1(self.norm3(x, time)), approximate="tanh"))


class FlowHead(nn.Module):
    """The velocity of noisy actions, from a transformer that attends to the trunk's last hidden states.

    Args:
        width: of the trunk.
        chunk: actions per chunk (C).
        action_dim: width of an action (A).
        hidden: width of this transformer.
        layers: its blocks.
        heads: its attention heads; they divide `hidden`.
    """

    def __init__(self, width: int, chunk: int, action_dim: int, hidden: int, layers: int, heads: int) -> None:
        super().__init__()
        if hidden % heads or hidden % 2:
            raise ValueError(f"hidden {hidden} must be even and a multiple of heads {heads}.")
        self.hidden = hidden
        self.action_in = nn.Linear(action_dim, hidden)
        self.positions = nn.Parameter(torch.empty(chunk, hidden))
        self.time_in, self.time_out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.blocks = nn.ModuleList(FlowBlock(hidden, heads, width) for _ in range(layers))
        self.norm = AdaptiveNorm(hidden)
        self.action_out = nn.Linear(hidden, action_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Positions as transformers initialises embeddings; the layers initialise themselves."""
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, noisy: Tensor, time: Tensor, context: Tensor, context_valid: Tensor, valid: Tensor) -> Tensor:
        """The velocity at `noisy`.

        Args:
            noisy: [B, C, A].
            time: [B] in (0, 1].
            context: the trunk's hidden states [B, T, width].
            context_valid: bool [B, T].
            valid: bool [B, C]: padded actions are seen by none but themselves.

        Returns:
            [B, C, A].
        """
        embedded = time_embedding(time, self.hidden).to(noisy.dtype)
        embedded = self.time_out(F.silu(self.time_in(embedded)))
        itself = torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
        among, to = valid[:, None, :] | itself, context_valid[:, None, :]
        x = self.action_in(noisy) + self.positions
        for block in self.blocks:
            x = block(x, embedded, context, among, to)
        return self.action_out(self.norm(x, embedded))


def flow_point(actions: Tensor, noise: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """openpi's path: x_t = t * noise + (1 - t) * actions, and its velocity noise - actions. Noise is at t = 1.

    Args:
        actions: [B, C, A].
        noise: [B, C, A].
        time: [B].
    """
    t = time[:, None, None]
    return t * noise + (1 - t) * actions, noise - actions
