"""pi0 and pi0.5 in the layout in which openpi's JAX code stores them: an independent way to the actions.

The matrices are used as they lie on disk (heads in axes of their own, inputs first), so that a mistake in the map to LeRobot's tensors
shows. Equations: openpi's src/openpi/models/{pi0,gemma,siglip}.py. fp32 throughout; a stage's leaves are read when it is their turn.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from .batch import ModelBatch
from .orbax import OrbaxParams
from .sizes import CAMERAS, Sizes

Leaves = dict[str, Tensor]
MASKED = -2.3819763e38  # gemma.py, big_neg
PERIODS = (4e-3, 4.0)
STREAMS = "PaliGemma/llm/"
EMBEDDER = f"{STREAMS}embedder/input_embedding"


def _read(params: OrbaxParams, prefix: str, *, suffix: str | None = None) -> Leaves:
    """Leaves under a prefix, their names without it; `suffix` chooses a Gemma stream ("" or "_1") and is left out of the names."""
    found: Leaves = {}
    # The largest first: while it is decoded, nothing else is held.
    names = sorted(params.leaves, key=lambda name: -torch.Size(params.leaves[name]).numel())
    for name in names:
        if not name.startswith(prefix) or name == EMBEDDER:
            continue
        short = name.removeprefix(prefix)
        if suffix is not None:
            expert = any(part.endswith("_1") for part in short.split("/"))
            if expert != (suffix == "_1"):
                continue
            short = "/".join(part.removesuffix("_1") for part in short.split("/"))
        found[short] = params.whole(name).float()
    return found


def _vision(params: OrbaxParams, images: list[Tensor]) -> list[Tensor]:
    """Pictures [B, H, W, 3] -> tokens [B, patches, W of the language model]."""
    leaves = _read(params, "PaliGemma/img/")
    kernel = leaves["embedding/kernel"]
    side = kernel.shape[0]
    block = "Transformer/encoderblock"
    attention = f"{block}/MultiHeadDotProductAttention_0"

    def norm(x: Tensor, name: str, layer: int | None) -> Tensor:
        scale, bias = leaves[f"{name}/scale"], leaves[f"{name}/bias"]
        if layer is not None:
            scale, bias = scale[layer], bias[layer]
        return F.layer_norm(x, x.shape[-1:], scale, bias, eps=1e-6)

    outputs = []
    for image in images:
        rows = image.shape[1] // side
        x = image.reshape(image.shape[0], rows, side, rows, side, 3)
        x = torch.einsum("bhpwqc,pqcd->bhwd", x, kernel).flatten(1, 2) + leaves["embedding/bias"]
        x = x + leaves["pos_embedding"]
        for i in range(leaves[f"{block}/LayerNorm_0/scale"].shape[0]):
            y = norm(x, f"{block}/LayerNorm_0", i)
            query, key, value = (
                torch.einsum("btd,dnh->bnth", y, leaves[f"{attention}/{name}/kernel"][i])
                + leaves[f"{attention}/{name}/bias"][i][None, :, None]
                for name in ("query", "key", "value")
            )
            weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
            y = torch.einsum("bnth,nhd->btd", weights @ value, leaves[f"{attention}/out/kernel"][i])
            x = x + y + leaves[f"{attention}/out/bias"][i]
            y = norm(x, f"{block}/LayerNorm_1", i)
            mlp = f"{block}/MlpBlock_0"
            y = F.gelu(y @ leaves[f"{mlp}/Dense_0/kernel"][i] + leaves[f"{mlp}/Dense_0/bias"][i], approximate="tanh")
            x = x + y @ leaves[f"{mlp}/Dense_1/kernel"][i] + leaves[f"{mlp}/Dense_1/bias"][i]
        x = norm(x, "Transformer/encoder_norm", None)
        outputs.append(x @ leaves["head/kernel"] + leaves["head/bias"])
    return outputs


def _rope(x: Tensor, positions: Tensor) -> Tensor:
    """Rotates [B, T, heads, head] by positions [B, T]."""
    half = x.shape[-1] // 2
    timescale = 10_000 ** (2.0 / x.shape[-1] * torch.arange(half, dtype=torch.float32))
    angle = (positions[..., None].float() / timescale)[..., None, :]
    first, second = x.split(half, dim=-1)
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], dim=-1)


Norm = Callable[[Tensor, str, int | None], tuple[Tensor, Tensor | None]]


def _norm(leaves: Leaves, condition: Tensor | None) -> Norm:
    """RMSNorm; with a condition [B, W] its scale, shift and gate come from it."""

    def apply(x: Tensor, name: str, layer: int | None) -> tuple[Tensor, Tensor | None]:
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        if condition is None:
            scale = leaves[f"{name}/scale"]
            return normed * (1 + (scale if layer is None else scale[layer])), None
        kernel, bias = leaves[f"{name}/Dense_0/kernel"], leaves[f"{name}/Dense_0/bias"]
        if layer is not None:
            kernel, bias = kernel[layer], bias[layer]
        scale, shift, gate = (condition @ kernel + bias)[:, None].chunk(3, dim=-1)
        return normed * (1 + scale) + shift, gate

    return apply


def _gemma(
    leaves: Leaves,
    x: Tensor,
    positions: Tensor,
    visible: Tensor,
    condition: Tensor | None,
    cache: list[tuple[Tensor, Tensor]] | None,
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """One stream over [B, T, W]; `visible` [B, T, S] says which keys, the cached ones first, each token sees."""
    norm = _norm(leaves, condition)
    caches = []
    for i in range(leaves["layers/attn/q_einsum/w"].shape[0]):
        y, gate = norm(x, "layers/pre_attention_norm", i)
        query = torch.einsum("btd,ndh->btnh", y, leaves["layers/attn/q_einsum/w"][i])
        key, value = torch.einsum("bsd,ckdh->cbskh", y, leaves["layers/attn/kv_einsum/w"][i])
        query, key = _rope(query, positions) * query.shape[-1] ** -0.5, _rope(key, positions)
        if cache is not None:
            key, value = torch.cat([cache[i][0], key], dim=1), torch.cat([cache[i][1], value], dim=1)
        caches.append((key, value))
        group = query.shape[2] // key.shape[2]
        query = query.unflatten(2, (key.shape[2], group))
        logits = torch.einsum("btkgh,bskh->bkgts", query, key).masked_fill(~visible[:, None, None], MASKED)
        mixed = torch.einsum("bkgts,bskh->btkgh", logits.softmax(-1), value).flatten(2, 3)
        y = torch.einsum("btnh,nhd->btd", mixed, leaves["layers/attn/attn_vec_einsum/w"][i])
        x = x + (y if gate is None else y * gate)
        y, gate = norm(x, "layers/pre_ffw_norm", i)
        gating = leaves["layers/mlp/gating_einsum"][i]
        y = (F.gelu(y @ gating[0], approximate="tanh") * (y @ gating[1])) @ leaves["layers/mlp/linear"][i]
        x = x + (y if gate is None else y * gate)
    return norm(x, "final_norm", None)[0], caches


def _blocks(present: Tensor, starts: Tensor) -> Tensor:
    """[B, T, T]: a token sees those whose block began no later than its own, of those that are there."""
    block = starts.long().cumsum(0)
    return (block[None, :] <= block[:, None])[None] & present[:, None] & present[:, :, None]


@torch.no_grad()
def actions(params: OrbaxParams, sizes: Sizes, batch: ModelBatch) -> ModelBatch:
    """The batch with the actions of the checkpoint."""
    cameras = [camera for camera in CAMERAS if camera in batch.images]
    pictures = _vision(params, [batch.images[camera] for camera in cameras])
    table = params.whole(EMBEDDER)
    words = table[batch.tokens].float() * table.shape[1] ** 0.5
    del table
    prefix = torch.cat([*pictures, words], dim=1)
    present = torch.cat(
        [
            *(batch.masks[camera][:, None].expand(x.shape[:2]) for camera, x in zip(cameras, pictures, strict=True)),
            batch.token_mask,
        ],
        dim=1,
    )
    leaves = _read(params, STREAMS, suffix="")
    visible = _blocks(present, torch.zeros(present.shape[1]))
    _, cache = _gemma(leaves, prefix, present.cumsum(1) - 1, visible, None, None)
    del leaves

    leaves = _read(params, STREAMS, suffix="_1")
    heads = {name: params.whole(name).float() for name in params.leaves if not name.startswith("PaliGemma/")}

    def dense(name: str, x: Tensor) -> Tensor:
        return x @ heads[f"{name}/kernel"] + heads[f"{name}/bias"]

    size, chunk = batch.noise.shape[:2]
    low, high = PERIODS
    period = low * (high / low) ** torch.linspace(0, 1, sizes.expert.width // 2)
    x, step = batch.noise, torch.tensor(-1.0 / batch.steps)
    time = torch.tensor(1.0)
    while time >= -step / 2:
        angle = time.expand(size)[:, None] / period * 2 * torch.pi
        moment = torch.cat([angle.sin(), angle.cos()], dim=-1)
        tokens, starts, condition = dense("action_in_proj", x), [1.0, *[0.0] * (chunk - 1)], None
        if sizes.family == "pi05":
            condition = F.silu(dense("time_mlp_out", F.silu(dense("time_mlp_in", moment))))
        else:
            joined = torch.cat([tokens, moment[:, None].expand_as(tokens)], dim=-1)
            tokens = dense("action_time_mlp_out", F.silu(dense("action_time_mlp_in", joined)))
            tokens = torch.cat([dense("state_proj", batch.state)[:, None], tokens], dim=1)
            starts = [1.0, *starts]
        there = torch.ones(tokens.shape[:2], dtype=torch.bool)
        visible = torch.cat(
            [present[:, None].expand(-1, tokens.shape[1], -1), _blocks(there, torch.tensor(starts))], dim=-1
        )
        positions = present.sum(1)[:, None] + there.cumsum(1) - 1
        out, _ = _gemma(leaves, tokens, positions, visible, condition, cache)
        x = x + step * dense("action_out_proj", out[:, -chunk:])
        time = time + step
    return replace(batch, actions=x)
