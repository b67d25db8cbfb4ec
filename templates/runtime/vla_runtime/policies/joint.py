"""Two transformers with one attention (pi0, pi0.5, SmolVLA): both layers of one depth as modules that are really called.

LeRobot's own loop reads the projections of a layer and never calls the layer, so that FSDP2 would never gather its parameters and
recompute would have nothing to wrap. `join_streams` leaves every module where it is, hence every key of the state dict, and makes the
language layer's forward call the expert layer, whose forward computes both: the hooks of both fire, and one recompute wrapper around
the language layer covers the pair.

Each stream computes in the dtype of its own module, attention in the wider of the two (fp32 where one stream is fp32). The prefix never
sees the suffix (every policy's mask says so), so its attention is computed by itself: a frozen language model needs no backward.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

import torch
from lerobot.policies.pi_gemma import PiGemmaRMSNorm, layernorm_forward
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.smolvla.smolvlm_with_expert import apply_rope
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache
from transformers.models.gemma.modeling_gemma import repeat_kv, rotate_half

from ..errors import UserError

_PI = "model.paligemma_with_expert"
_SMOL = "model.vlm_with_expert"
_CONTAINERS: dict[str, tuple[str, ...]] = {
    "pi0": (
        "model",
        _PI,
        f"{_PI}.paligemma",
        f"{_PI}.paligemma.model",
        f"{_PI}.paligemma.model.language_model",
        f"{_PI}.gemma_expert",
        f"{_PI}.gemma_expert.model",
    ),
    "smolvla": (
        "model",
        _SMOL,
        f"{_SMOL}.vlm",
        f"{_SMOL}.vlm.model",
        f"{_SMOL}.vlm.model.text_model",
        f"{_SMOL}.lm_expert",
    ),
    # The encoder is called, but of its children one is tied to an embedding outside and stays in the root unit.
    "xvla": ("model", "model.vlm", "model.vlm.language_model", "model.vlm.language_model.encoder"),
}
_CONTAINERS["pi05"] = _CONTAINERS["pi0"]


def join_streams(policy: PreTrainedPolicy) -> None:
    """Makes the pairs of layers of a pi0, pi0.5 or SmolVLA policy called modules, in place.

    Call it before adapters, recompute and sharding. Parameters, their names, and what the policy computes stay; inference on the
    sharded policy works through the same modules. `mark_containers` is called too.

    Raises:
        UserError: another policy type, or one that LeRobot's own recompute or compilation is switched on for.
    """
    kind = policy.config.type
    if kind not in ("pi0", "pi05", "smolvla"):
        raise UserError(f"Policies of type {kind} have no joint attention that this runtime knows.")
    for option in ("gradient_checkpointing", "compile_model"):
        if getattr(policy.config, option, False):
            raise UserError(
                f"{option} of LeRobot's {kind} works inside the policy and past the runtime's own units. "
                f"Leave it off; recompute is declared per module."
            )
    model: Any = policy.model
    if kind == "smolvla":
        both: Any = model.vlm_with_expert
        languages, experts = both.get_model_layers([both.get_vlm_model().text_model, both.lm_expert])
        both.forward = MethodType(_smol_forward, both)
    else:
        both = model.paligemma_with_expert
        languages, experts = both.paligemma.model.language_model.layers, both.gemma_expert.model.layers
        both.forward = MethodType(_pi_forward, both)
        model.embed_suffix = MethodType(_embed_suffix, model)
    for language, expert in zip(languages, experts, strict=True):
        language.forward = MethodType(_language_forward, language)
        language.casts_own_inputs = True
        if expert is not None:
            expert.forward = MethodType(_expert_forward, expert)
            expert.casts_own_inputs = True
            expert.runs_inside = (language,)  # in a tuple, so that torch does not take it for a child
    model.action_out_proj.register_forward_hook(_widened)
    mark_containers(policy)


def mark_containers(policy: PreTrainedPolicy) -> None:
    """Tells the runtime which submodules of pi0, pi0.5, SmolVLA or X-VLA are never called, though their children are.

    They get the attribute `is_container`, by which `Partition.roots` and with it FSDP2's units pass over them for their children; and
    the policy the attribute `cast_at_borders`, by which `shard` brings inputs to the dtype of the module that they enter.
    """
    for name in _CONTAINERS[policy.config.type]:
        container: Any = policy.get_submodule(name)
        container.is_container = True
    whole: Any = policy
    whole.cast_at_borders = True


def dead_parameters(policy: PreTrainedPolicy) -> list[str]:
    """Names of the parameters on which no loss depends: they never train and have no optimizer state.

    Output embeddings that nothing reads; and of the deepest language layer that an expert layer sees what only the language model's own
    output would need (the expert reads its keys and values), with all that comes behind it. X-VLA's projection of all images but the
    first, where there is only one.

    LeRobot's own backward leaves no gradient for them, except a zero for that layer's queries where the attention is joint; SmolVLA's
    constructor freezes the whole layer instead, keys and values included.
    """
    config: Any = policy.config
    kind = config.type
    if kind in ("pi0", "pi05"):
        language = f"{_PI}.paligemma.model.language_model"
        heads = (f"{_PI}.paligemma.lm_head.", f"{_PI}.gemma_expert.lm_head.")
        layers: Any = policy.get_submodule(f"{language}.layers")
        deepest = len(layers) - 1
    elif kind == "smolvla":
        both: Any = policy.get_submodule(_SMOL)
        language = f"{_SMOL}.vlm.model.text_model"
        tied = both.vlm.lm_head.weight is both.vlm.model.text_model.embed_tokens.weight
        heads = () if tied else (f"{_SMOL}.vlm.lm_head.",)
        layers, experts = both.get_model_layers([both.vlm.model.text_model, both.lm_expert])
        deepest = _deepest(experts)
    else:
        alone = kind == "xvla" and config.num_image_views == 1
        return [name for name, _ in policy.named_parameters() if alone and ".aux_visual_proj." in name]
    parts = ("self_attn.q_proj", "self_attn.o_proj", "mlp", "post_attention_layernorm")
    dead = (
        *heads,
        f"{language}.norm.",
        *(f"{language}.layers.{deepest}.{part}." for part in parts),
        *(f"{language}.layers.{index}." for index in range(deepest + 1, len(layers))),
    )
    return [name for name, _ in policy.named_parameters() if name.startswith(dead)]


def _deepest(experts: Sequence[nn.Module | None]) -> int:
    """The last depth at which there is an expert layer."""
    return max(index for index, expert in enumerate(experts) if expert is not None)


# One depth


@dataclass(frozen=True)
class _Pair:
    """What one depth needs beside the hidden states. Nothing in here carries a gradient: FSDP2 sees only arguments of the call.

    Attributes:
        expert: the expert layer as it stands in its stack, with its hooks; None where the depth has none, or only prefix is given.
        dtypes: compute dtypes that `shard` has left at the two layers; None: that of the weights.
        mask: additive, [B, 1, queries, keys].
    """

    expert: nn.Module | None
    dtypes: tuple[torch.dtype | None, torch.dtype | None]
    mask: Tensor

    def run(
        self,
        language: Any,
        expert: Any,
        prefix: Tensor | None,
        suffix: Tensor | None,
        condition: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """The hidden states behind the depth. The layers are of LeRobot's and transformers' classes; None where there is none."""
        raise NotImplementedError


class _Projected(NamedTuple):
    """What attention reads of a layer.

    Attributes:
        hidden: the residual stream in the layer's dtype.
        query, key, value: per head; `query` is None where nothing is asked.
        gate: of the attention's output, for adaptive norms.
    """

    hidden: Tensor
    query: Tensor | None
    key: Tensor
    value: Tensor
    gate: Tensor | None


def _language_forward(
    self: Any,
    hidden: Tensor,
    suffix: Tensor | None = None,
    condition: Tensor | None = None,
    *,
    pair: _Pair | None = None,
    **others: Any,
) -> Any:
    """A language layer's forward: of the pair, or (in inference) of the layer by itself with LeRobot's own arguments."""
    if pair is None:
        return _alone(self, hidden, **others)
    if pair.expert is None:
        return pair.run(self, None, hidden, suffix, condition)
    return pair.expert(hidden, suffix, condition, pair=pair, language=self)


def _expert_forward(
    self: Any,
    hidden: Tensor | None,
    suffix: Tensor | None = None,
    condition: Tensor | None = None,
    *,
    pair: _Pair | None = None,
    language: nn.Module | None = None,
    **others: Any,
) -> Any:
    """An expert layer's forward, which computes the whole pair; `hidden` is the prefix then."""
    if pair is None:
        return _alone(self, hidden, **others)
    return pair.run(language, self, hidden, suffix, condition)


def _alone(layer: Any, hidden: Any, **others: Any) -> Any:
    if isinstance(layer.input_layernorm, PiGemmaRMSNorm):
        return _gemma_alone(layer, hidden, **others)
    return type(layer).forward(layer, hidden, **others)


def _compute_dtypes(language: nn.Module, expert: nn.Module | None) -> tuple[torch.dtype | None, torch.dtype | None]:
    return getattr(language, "compute_dtype", None), getattr(expert, "compute_dtype", None)


@contextlib.contextmanager
def _computing(weight: Tensor, declared: torch.dtype | None) -> Iterator[torch.dtype]:
    """Within: linear layers compute in the declared dtype, which is that of the gathered weights, or under DDP autocast's."""
    dtype = weight.dtype if declared is None else declared
    if dtype == weight.dtype:
        yield dtype
    else:
        with torch.autocast(weight.device.type, dtype=dtype):
            yield dtype


def _without_autocast(like: Tensor) -> contextlib.AbstractContextManager[Any]:
    """DDP's autocast of one stream must not reach the other."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else contextlib.nullcontext()


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """query [B, H, Q, D], key and value [B, KV, K, D] -> [B, Q, H * D], in the widest of their dtypes."""
    dtype = torch.promote_types(query.dtype, torch.promote_types(key.dtype, value.dtype))
    groups = query.shape[1] // key.shape[1]
    with _without_autocast(query):
        attended = functional.scaled_dot_product_attention(
            query.to(dtype),
            repeat_kv(key.to(dtype), groups),
            repeat_kv(value.to(dtype), groups),
            attn_mask=mask.to(dtype),
            scale=scale,
        )
    return attended.transpose(1, 2).flatten(2)


def _widened(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    """Forward hook: the loss is made in fp32 at least."""
    return output.to(torch.promote_types(output.dtype, torch.float32))


# pi0 and pi0.5


@dataclass(frozen=True)
class _GemmaPair(_Pair):
    """One depth of PaliGemma and its expert. `cos`, `sin`: [B, prefix + suffix, D]. `last`: nothing reads the prefix behind it."""

    cos: Tensor
    sin: Tensor
    last: bool

    def run(
        self,
        language: Any,
        expert: Any,
        prefix: Tensor | None,
        suffix: Tensor | None,
        condition: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """Both streams."""
        assert prefix is not None and suffix is not None
        with _without_autocast(suffix):
            seen = _gemma_project(language, prefix, None, self.dtypes[0], asks=not self.last)
            own = _gemma_project(expert, suffix, condition, self.dtypes[1])
            assert own.query is not None
            wide = torch.promote_types(seen.key.dtype, own.key.dtype)
            border = prefix.shape[1]
            cos, sin = self.cos.to(wide), self.sin.to(wide)
            key, value = _rotated(seen.key.to(wide), cos[:, :border], sin[:, :border]), seen.value.to(wide)
            own_query = _rotated(own.query.to(wide), cos[:, border:], sin[:, border:])
            own_key = _rotated(own.key.to(wide), cos[:, border:], sin[:, border:])
            keys, values = torch.cat([key, own_key], 2), torch.cat([value, own.value.to(wide)], 2)
            scale: float = language.self_attn.scaling
            prefix = seen.hidden
            if seen.query is not None:
                query = _rotated(seen.query.to(wide), cos[:, :border], sin[:, :border])
                attended = _attend(query, key, value, self.mask[:, :, :border, :border], scale)
                prefix = _gemma_finish(language, seen.hidden, attended, seen.gate, None, self.dtypes[0])
            attended = _attend(own_query, keys, values, self.mask[:, :, border:], scale)
            return prefix, _gemma_finish(expert, own.hidden, attended, own.gate, condition, self.dtypes[1])


def _rotated(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions on [B, heads, L, D] with cos and sin [B, L, D]."""
    return states * cos[:, None] + rotate_half(states) * sin[:, None]


def _gemma_project(
    layer: Any, hidden: Tensor, condition: Tensor | None, declared: torch.dtype | None, asks: bool = True
) -> _Projected:
    """Query (None if it `asks` nothing), key, value [B, heads, L, D]."""
    attention = layer.self_attn
    with _computing(attention.q_proj.weight, declared) as dtype:
        hidden = hidden.to(dtype)
        normed, gate = layernorm_forward(layer.input_layernorm, hidden, _cast(condition, dtype))
        shape = (*hidden.shape[:-1], -1, attention.head_dim)

        def project(layer: nn.Module) -> Tensor:
            return layer(normed.to(dtype)).view(shape).transpose(1, 2)

        query = project(attention.q_proj) if asks else None
        return _Projected(hidden, query, project(attention.k_proj), project(attention.v_proj), gate)


def _gemma_finish(
    layer: Any,
    hidden: Tensor,
    attended: Tensor,
    gate: Tensor | None,
    condition: Tensor | None,
    declared: torch.dtype | None,
) -> Tensor:
    """The residual stream behind the output projection and the MLP."""
    with _computing(layer.self_attn.q_proj.weight, declared) as dtype:
        hidden = _gated(hidden, layer.self_attn.o_proj(attended.to(dtype)), gate)
        normed, gate = layernorm_forward(layer.post_attention_layernorm, hidden, _cast(condition, dtype))
        return _gated(hidden, layer.mlp(normed.to(dtype)), gate)


def _gated(hidden: Tensor, added: Tensor, gate: Tensor | None) -> Tensor:
    return hidden + added if gate is None else hidden + added * gate


def _cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)


def _gemma_alone(
    layer: Any,
    hidden: Any,
    *,
    attention_mask: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    past_key_values: Any = None,
    adarms_cond: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """A layer of one stream, with the keys and values of the other in `past_key_values`: how inference calls it."""
    hidden, query, key, value, gate = _gemma_project(layer, hidden, adarms_cond, None)
    assert query is not None
    cos, sin = (part.to(query.dtype) for part in position_embeddings)
    query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
    if past_key_values is not None:
        key, value = past_key_values.update(key, value, layer.self_attn.layer_idx)
    attended = _attend(query, key, value, attention_mask, layer.self_attn.scaling)
    return _gemma_finish(layer, hidden, attended, gate, adarms_cond, None)


def _embed_suffix(self: Any, *arguments: Any) -> Any:
    """LeRobot's `embed_suffix`; keeps the expert's tokens as they are.

    LeRobot's forward rounds them to bf16 where the language model is stored in it, whatever the expert computes in.
    """
    embedded = type(self).embed_suffix(self, *arguments)
    self.paligemma_with_expert.unrounded_suffix = embedded[0]
    return embedded


def _pi_forward(
    self: Any,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    past_key_values: Any = None,
    inputs_embeds: Sequence[Tensor | None] = (),
    use_cache: bool | None = None,
    adarms_cond: Sequence[Tensor | None] | None = None,
) -> Any:
    """LeRobot's `PaliGemmaWithExpertModel.forward`; the prefix's output, which nothing reads, is None where both streams run."""
    prefix, suffix = inputs_embeds
    unrounded = self.__dict__.pop("unrounded_suffix", None)
    if prefix is None or suffix is None:
        return type(self).forward(
            self, attention_mask, position_ids, past_key_values, list(inputs_embeds), use_cache, adarms_cond
        )
    assert attention_mask is not None
    suffix = suffix if unrounded is None else unrounded
    language, expert = self.paligemma.model.language_model, self.gemma_expert.model
    condition = None if adarms_cond is None else adarms_cond[1]
    like = suffix.new_empty(0, dtype=torch.promote_types(suffix.dtype, torch.float32))
    cos, sin = language.rotary_emb(like, position_ids)
    depth = len(language.layers)
    for index, (layer, partner) in enumerate(zip(language.layers, expert.layers, strict=True)):
        pair = _GemmaPair(
            expert=partner,
            dtypes=_compute_dtypes(layer, partner),
            mask=attention_mask,
            cos=cos,
            sin=sin,
            last=index == depth - 1,
        )
        prefix, suffix = layer(prefix, suffix, condition, pair=pair)
    output, _ = layernorm_forward(expert.norm, suffix, condition)
    return [None, output], None


# SmolVLA


@dataclass(frozen=True)
class _SmolPair(_Pair):
    """One depth of SmolVLM's text model and its expert.

    Attributes:
        positions: [B, prefix + suffix], or of the one stream that is given.
        index: of the depth, in the cache.
        crosses: the expert attends to the prefix's keys and values instead of to both streams.
        last: nothing reads the prefix behind this depth.
        cache: filled from the prefix, or read beside the suffix.
    """

    positions: Tensor
    index: int
    crosses: bool
    last: bool
    cache: Any

    def run(
        self,
        language: Any,
        expert: Any,
        prefix: Tensor | None,
        suffix: Tensor | None,
        condition: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """The streams that are given."""
        given = prefix if prefix is not None else suffix
        assert given is not None
        with _without_autocast(given):
            border = 0 if prefix is None else prefix.shape[1]
            key = value = None
            if prefix is not None:
                seen = _smol_project(language, prefix, self.dtypes[0], asks=not self.last)
                key, value = apply_rope(seen.key, self.positions[:, :border]), seen.value
                if self.cache is not None:
                    self.cache.update(key.transpose(1, 2), value.transpose(1, 2), self.index)
                prefix = seen.hidden
                if seen.query is not None:
                    query = apply_rope(seen.query, self.positions[:, :border])
                    attended = _smol_attend(query, key, value, self.mask[:, :, :border, :border])
                    prefix = _smol_finish(language, seen.hidden, attended, self.dtypes[0])
            if suffix is not None and expert is not None:
                if self.crosses:
                    suffix = self._cross(expert, suffix, key, value, border)
                else:
                    suffix = self._join(expert, suffix, key, value, border)
        return prefix, suffix

    def _join(self, expert: Any, suffix: Tensor, key: Tensor | None, value: Tensor | None, border: int) -> Tensor:
        own = _smol_project(expert, suffix, self.dtypes[1])
        assert own.query is not None
        query, own_key = (apply_rope(states, self.positions[:, border:]) for states in (own.query, own.key))
        if key is not None and value is not None:
            keys, values = torch.cat([key, own_key], 1), torch.cat([value, own.value], 1)
        else:
            updated = self.cache.update(own_key.transpose(1, 2), own.value.transpose(1, 2), self.index)
            keys, values = (states.transpose(1, 2) for states in updated)
        attended = _smol_attend(query, keys, values, self.mask[:, :, border:])
        return _smol_finish(expert, own.hidden, attended, self.dtypes[1])

    def _cross(self, expert: Any, suffix: Tensor, key: Tensor | None, value: Tensor | None, border: int) -> Tensor:
        if key is None or value is None:
            layer = self.cache.layers[self.index]
            held: tuple[Tensor, Tensor] = (layer.keys.transpose(1, 2), layer.values.transpose(1, 2))
            key, value = held
        attention = expert.self_attn
        with _computing(attention.q_proj.weight, self.dtypes[1]) as dtype:
            suffix = suffix.to(dtype)
            normed = expert.input_layernorm(suffix).to(dtype)
            shape = (*suffix.shape[:-1], -1, attention.head_dim)
            kept = (*key.shape[:-2], -1, attention.head_dim)
            query = attention.q_proj(normed).view(shape)
            keys = attention.k_proj(key.to(dtype).flatten(2)).view(kept)
            values = attention.v_proj(value.to(dtype).flatten(2)).view(kept)
        query, keys, values = (_wide(states) for states in (query, keys, values))
        positions = self.positions[:, border:]
        query = apply_rope(query, positions - positions.amin(1, keepdim=True))
        attended = _smol_attend(query, keys, values, self.mask[:, :, -suffix.shape[1] :, : keys.shape[1]])
        return _smol_finish(expert, suffix, attended, self.dtypes[1])


def _wide(states: Tensor) -> Tensor:
    """In fp32 at least, as SmolVLA's attention is."""
    return states.to(torch.promote_types(states.dtype, torch.float32))


def _smol_project(layer: Any, hidden: Tensor, declared: torch.dtype | None, asks: bool = True) -> _Projected:
    """Query (None if it `asks` nothing), key and value [B, L, heads, D]."""
    attention = layer.self_attn
    with _computing(attention.q_proj.weight, declared) as dtype:
        hidden = hidden.to(dtype)
        normed = layer.input_layernorm(hidden).to(dtype)
        shape = (*hidden.shape[:-1], -1, attention.head_dim)

        def project(layer: nn.Module) -> Tensor:
            return _wide(layer(normed).view(shape))

        query = project(attention.q_proj) if asks else None
        return _Projected(hidden, query, project(attention.k_proj), project(attention.v_proj), None)


def _smol_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    return _attend(query, key, value, mask, query.shape[-1] ** -0.5)


def _smol_finish(layer: Any, hidden: Tensor, attended: Tensor, declared: torch.dtype | None) -> Tensor:
    """The residual stream behind the output projection and the MLP."""
    with _computing(layer.self_attn.q_proj.weight, declared) as dtype:
        hidden = hidden + layer.self_attn.o_proj(attended.to(dtype))
        return hidden + layer.mlp(layer.post_attention_layernorm(hidden).to(dtype))


def _smol_forward(
    self: Any,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    past_key_values: Any = None,
    inputs_embeds: Sequence[Tensor | None] = (),
    use_cache: bool | None = None,
) -> Any:
    """LeRobot's `SmolVLMWithExpertModel.forward`; the prefix's output, which nothing reads, is None."""
    prefix, suffix = inputs_embeds
    assert attention_mask is not None and position_ids is not None
    if prefix is None and past_key_values is None:
        raise UserError(
            "SmolVLA with use_cache=False cannot denoise: the suffix alone knows no prefix. Set use_cache: true."
        )
    if use_cache and past_key_values is None:
        past_key_values = DynamicCache()
    text, expert = self.get_vlm_model().text_model, self.lm_expert
    languages, experts = self.get_model_layers([text, expert])
    least = torch.finfo(torch.float32).min
    mask = torch.zeros(attention_mask.shape, device=attention_mask.device).masked_fill(~attention_mask, least)[:, None]
    every = self.self_attn_every_n_layers
    deepest = _deepest(experts)
    for index, (layer, partner) in enumerate(zip(languages[: deepest + 1], experts[: deepest + 1], strict=True)):
        partner = None if suffix is None else partner
        pair = _SmolPair(
            expert=partner,
            dtypes=_compute_dtypes(layer, partner),
            mask=mask,
            positions=position_ids,
            index=index,
            crosses="cross" in self.attention_mode and not (every > 0 and index % every == 0),
            last=index == deepest,
            cache=past_key_values if use_cache else None,
        )
        if prefix is not None:
            prefix, suffix = layer(prefix, suffix, None, pair=pair)
        elif partner is not None:
            _, suffix = partner(None, suffix, None, pair=pair)
    return [None, None if suffix is None else expert.norm(suffix)], past_key_values
