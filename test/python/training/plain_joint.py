"""Joint attention written down a second time, in one piece: both streams of a depth are concatenated and meet in one softmax.

It shares weights, norms and rotary frequencies with a `ComposedVLA`, and nothing of how that is run: no keys and values are handed on,
no prefix is computed by itself, no layer of transformers is called.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from vla_runtime.modeling.batch import Batch

PREFIX, STATE, ACTIONS = 0, 1, 2
"""The blocks of pi0, in order: a token sees its own block and those before it."""


def losses(model: Any, batch: Batch, *, prefix_sees_suffix: bool = False) -> Tensor:
    """Squared errors of the velocity [B, C, A]; padded actions are not set to zero."""
    assert batch.actions is not None and batch.noise is not None and batch.time is not None
    t = batch.time[:, None, None]
    point = t * batch.noise + (1 - t) * batch.actions
    found = velocity(model, batch, point, batch.time, prefix_sees_suffix=prefix_sees_suffix)
    return (found - (batch.noise - batch.actions)) ** 2


def velocity(model: Any, batch: Batch, point: Tensor, time: Tensor, *, prefix_sees_suffix: bool = False) -> Tensor:
    """The velocity [B, C, A] at `point` [B, C, A], for a Llama trunk under a prefix mask."""
    language, expert = model.language_model.model, model.action_head
    pictures = [batch.images[camera] for camera in model.config.cameras]
    tokens = [model.projector(model.vision_backbone(picture, torch.float64)) for picture in pictures]
    words = language.embed_tokens(batch.prompt)
    prefix = torch.cat([words[:, :1], *tokens, words[:, 1:]], dim=1)
    images = sum(part.shape[1] for part in tokens)
    seen = torch.ones(point.shape[0], images, dtype=torch.bool)
    prefix_valid = torch.cat([batch.prompt_mask[:, :1], seen, batch.prompt_mask[:, 1:]], dim=1)

    chunk, width = point.shape[1], expert.action_in.out_features
    period = 4e-3 * 1e3 ** torch.linspace(0, 1, width // 2, dtype=point.dtype)
    angle = time[:, None] * 2 * torch.pi / period
    clock = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)[:, None].expand(-1, chunk, -1)
    suffix = expert.time_out(F.silu(expert.time_in(torch.cat([expert.action_in(point), clock], dim=2))))
    actions_valid = torch.ones(point.shape[:2], dtype=torch.bool) if batch.valid is None else batch.valid
    suffix_valid = actions_valid
    if expert.state_in is not None:
        suffix = torch.cat([expert.state_in(batch.state)[:, None], suffix], dim=1)
        suffix_valid = torch.cat([torch.ones_like(actions_valid[:, :1]), actions_valid], dim=1)

    blocks = [PREFIX] * prefix.shape[1] + [STATE] * (suffix.shape[1] - chunk) + [ACTIONS] * chunk
    block = torch.tensor(blocks)
    may = block[None, :] <= block[:, None]
    if prefix_sees_suffix:
        may = may | (block[:, None] == PREFIX)
    itself = torch.eye(len(blocks), dtype=torch.bool) & (block == ACTIONS)
    allowed = may & torch.cat([prefix_valid, suffix_valid], dim=1)[:, None] | itself
    # Padding of the prompt takes no position; actions stand at consecutive ones.
    position = torch.cat(
        [
            prefix_valid.cumsum(1) - 1,
            prefix_valid.sum(1, keepdim=True) + torch.arange(suffix.shape[1]),
        ],
        dim=1,
    ).clamp_min(0)
    cos, sin = language.rotary_emb(prefix, position)

    border = prefix.shape[1]
    for ours, theirs in zip(language.layers, expert.transformer.layers, strict=True):
        streams = [(ours, prefix), (theirs, suffix)]
        # Llama's norm rounds to fp32 inside, so that its backward is exact to 1e-9 only where it runs as often as there.
        normed = [(layer.self_attn, layer.input_layernorm(x)) for layer, x in streams]
        queries, keys, values = (
            torch.cat([_heads(attention, name, x) for attention, x in normed], dim=2) for name in ("q", "k", "v")
        )
        queries, keys = _turned(queries, cos, sin), _turned(keys, cos, sin)
        groups = queries.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
        scores = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
        weights = scores.masked_fill(~allowed[:, None], float("-inf")).softmax(-1)
        found = (weights @ values).transpose(1, 2).flatten(2)
        prefix, suffix = (
            _rest(layer, x, part)
            for (layer, x), part in zip(streams, (found[:, :border], found[:, border:]), strict=True)
        )
    return expert.action_out(expert.transformer.norm(suffix)[:, -chunk:])


def _heads(attention: Any, name: str, x: Tensor) -> Tensor:
    """Projected tokens [B, heads, T, head dim]."""
    projected = getattr(attention, f"{name}_proj")(x)
    return projected.unflatten(2, (-1, attention.head_dim)).transpose(1, 2)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[3] // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], dim=3) * sin[:, None]


def _rest(layer: Any, x: Tensor, attended: Tensor) -> Tensor:
    x = x + layer.self_attn.o_proj(attended)
    normed, mlp = layer.post_attention_layernorm(x), layer.mlp
    return x + mlp.down_proj(F.silu(mlp.gate_proj(normed)) * mlp.up_proj(normed))
