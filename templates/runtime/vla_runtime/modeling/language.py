"""The trunk: any causal language model of transformers, with the attention mask as data of the model."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig
from transformers.cache_utils import Cache

from .construct import real_buffers
from .joint import KeyValue, hand_on

MASKS = ("causal", "prefix", "full")


def language_config(language: dict) -> PretrainedConfig:
    """The transformers configuration of the trunk: `config` where it is written down, else read from directory or hub cache.

    `spare_tokens` entries are appended to the vocabulary.
    """
    if language.get("config") is not None:
        values = dict(language["config"])
        config = AutoConfig.for_model(values.pop("model_type"), **values)
    else:
        config = AutoConfig.from_pretrained(language["name"], revision=language.get("revision"))
    config = config.get_text_config()
    config.vocab_size = config.vocab_size + language.get("spare_tokens", 0)
    for unsupported in ("logits_scaling", "logit_scale"):
        if getattr(config, unsupported, None) not in (None, 1, 1.0):
            raise ValueError(f"{config.model_type} scales its logits ({unsupported}), which this trunk does not do.")
    return config


def visible(valid: Tensor, prefix: int, kind: str) -> Tensor:
    """Who may see whom.

    Args:
        valid: bool [B, T], false at padding. The first token of each sample is valid.
        prefix: length of the observation (images, instruction, state); what follows are action queries or action tokens.
        kind: `causal`: each token sees itself and what came before; `prefix`: the observation sees all of itself, what follows
            is causal; `full`: each token sees every token.

    Returns:
        bool [B, T, T]: row (query) may see column (key). Padding is never seen; its own rows see something, so that no softmax
        is over nothing.
    """
    length = valid.shape[1]
    index = torch.arange(length, device=valid.device)
    match kind:
        case "causal":
            allowed = index[:, None] >= index[None, :]
        case "prefix":
            allowed = (index[:, None] >= index[None, :]) | (index[None, :] < prefix)
        case "full":
            allowed = torch.ones(length, length, dtype=torch.bool, device=valid.device)
        case _:
            raise ValueError(f"Unknown mask {kind!r}: use one of {', '.join(MASKS)}.")
    return allowed & valid[:, None, :]


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """bool [B, Q, K] -> [B, 1, Q, K] with 0 where allowed and the lowest number of `dtype` elsewhere: sdpa and eager both add it."""
    mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min).unsqueeze(1)


def positions(valid: Tensor) -> Tensor:
    """bool [B, T] -> int64 [B, T]: padding takes no position, so a longer padding changes nothing."""
    return (valid.long().cumsum(-1) - 1).clamp_min(0)


class LanguageModel(nn.Module):
    """A transformers causal LM under its own parameter names (`model.layers.0...`, `lm_head`), reading tokens and embeddings.

    Without `head` the output embedding is left out: decoders that do not predict tokens would never train it. With `hands_on` it gives
    out each layer's keys and values (joint attention) instead of hidden states.
    """

    def __init__(
        self, config: PretrainedConfig, head: bool, attention: str = "sdpa", *, hands_on: bool = False
    ) -> None:
        super().__init__()
        if attention not in ("sdpa", "eager"):
            raise ValueError(f"Attention {attention!r} does not take an arbitrary mask: use sdpa or eager.")
        with real_buffers():
            whole = AutoModelForCausalLM.from_config(
                config, dtype=torch.get_default_dtype(), attn_implementation=attention
            )
        self.base_name = whole.base_model_prefix
        self.config = whole.config
        setattr(self, self.base_name, getattr(whole, self.base_name))
        self.lm_head = whole.get_output_embeddings() if head else None
        self.tied = head and bool(config.tie_word_embeddings)
        if self.tied:
            self.lm_head.weight = self.embeddings.weight  # type: ignore[union-attr]
        self.hands_on = hands_on
        if hands_on:
            hand_on(self.base)

    @property
    def base(self) -> Any:
        """The transformers model without output embedding."""
        return getattr(self, self.base_name)

    @property
    def embeddings(self) -> nn.Embedding:
        """The input embedding."""
        return cast(nn.Embedding, self.base.get_input_embeddings())

    @property
    def width(self) -> int:
        """Hidden width."""
        return self.config.hidden_size

    def forward(
        self,
        *,
        mask: Tensor,
        position_ids: Tensor,
        prompt: Tensor | None = None,
        images: Tensor | None = None,
        state: Tensor | None = None,
        queries: Tensor | None = None,
        answer: Tensor | None = None,
        logits_at: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor | list[KeyValue]:
        """`[first prompt token] [images] [rest of the prompt] [state] [queries] [answer]` through the trunk.

        Args:
            mask: additive [B, 1, Q, K], 0 where a token (row) may see another (column).
            position_ids: int64 [B, Q].
            prompt: int64 [B, L].
            images: [B, N, width].
            state: [B, 1, width].
            queries: [B, n, width].
            answer: int64 [B, n], token ids.
            logits_at: int64 [B, n]: positions whose logits are wanted; None returns hidden states.
            cache: keys and values of earlier calls, extended by this one. Inference only: under FSDP2 gradients cannot pass
                through what leaves a unit by a side door.

        Returns:
            [B, Q, width] behind the last norm, or [B, n, vocabulary]; a trunk that hands on: keys and values of each layer.
        """
        embed = self.embeddings
        parts: list[Tensor] = []
        if prompt is not None:
            text = embed(prompt)
            parts += [text[:, :1], *([] if images is None else [images]), text[:, 1:]]
        parts += [part for part in (state, queries) if part is not None]
        if answer is not None:
            parts.append(embed(answer))
        sequence = torch.cat(parts, dim=1)
        if self.hands_on:
            return self._keys_values(sequence, mask, position_ids)
        hidden = self.base(
            inputs_embeds=sequence,
            attention_mask=mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        if logits_at is None:
            return hidden
        if self.lm_head is None:
            raise ValueError("This trunk was built without an output embedding.")
        scores = self.lm_head(hidden.gather(1, logits_at.unsqueeze(-1).expand(-1, -1, hidden.shape[-1])))
        cap = getattr(self.config, "final_logit_softcapping", None)
        return scores if cap is None else cap * torch.tanh(scores / cap)

    def _keys_values(self, hidden: Tensor, mask: Tensor, position_ids: Tensor) -> list[KeyValue]:
        rotary = self.base.rotary_emb(hidden, position_ids)
        found: list[KeyValue] = []
        for layer in self.base.layers:
            hidden, key, value = layer(
                hidden, attention_mask=mask, position_ids=position_ids, position_embeddings=rotary
            )
            found.append((key, value))
        return found

    def dead_parameters(self) -> list[str]:
        """Names of parameters that never receive a gradient: of a trunk that hands on, all behind the keys and values of its last layer."""
        if not self.hands_on:
            return []
        last = f"{self.base_name}.layers.{len(self.base.layers) - 1}."
        live = tuple(f"{last}{part}" for part in ("input_layernorm.", "self_attn.k_", "self_attn.v_"))
        behind = (f"{self.base_name}.norm.", last)
        names = [name for name, _ in self.named_parameters()]
        return [name for name in names if name.startswith(behind) and not name.startswith(live)]
