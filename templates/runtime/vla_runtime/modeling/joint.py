"""Joint attention of two transformers, the trunk and an action expert: the trunk's layers hand their keys and values on.

The trunk never sees the expert, so that each of its layers runs as it is and gives out, beside its hidden states, the keys and values
that it has made; the expert's layer of the same depth takes them as inputs and puts them before its own. Both are transformers' own
layers, called as such: rotary positions, grouped heads, norms of queries and keys, and caps are the family's own on both sides.

Keys and values are outputs of one FSDP2 unit and inputs of another. Left in a cache object, gradients would pass the units' hooks by.
"""

import contextlib
import copy
import functools
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

KeyValue = tuple[Tensor, Tensor]
"""Keys and values of one layer, each [B, key-value heads, T, head dim], positions applied."""

FAMILIES = ("gemma", "gemma2", "llama", "mistral", "qwen2", "qwen3")
"""model_type of the trunks whose layers do all of their model's work: embedding, layers, norm, and one kind of rotary positions."""


def expert_config(trunk: PretrainedConfig, hidden: int, mlp: int) -> PretrainedConfig:
    """The configuration of an expert beside a trunk: its layers, heads, key-value heads and head dim with other widths, no vocabulary.

    Args:
        trunk: of the language model.
        hidden: width of the expert's residual stream.
        mlp: inner width of its MLPs.
    """
    config = copy.deepcopy(trunk)
    config.head_dim = getattr(trunk, "head_dim", None) or trunk.hidden_size // trunk.num_attention_heads
    config.hidden_size, config.intermediate_size = hidden, mlp
    config.vocab_size, config.pad_token_id = 1, None  # its embedding is thrown away
    return config


def hand_on(trunk: Any) -> None:
    """Makes the layers of a transformers model return (hidden states, keys, values), in place. The last one, whose hidden states nothing
    reads, gives None in their place and does not compute them.

    Raises:
        ValueError: a family of which it is not known that this works.
    """
    if trunk.config.model_type not in FAMILIES:
        raise ValueError(
            f"Joint attention is not known to work with a language model of type {trunk.config.model_type!r}: use one of "
            f"{', '.join(FAMILIES)}, or attention: 'cross'."
        )
    layers = list(trunk.layers)
    for layer in layers:
        layer.forward = functools.partial(MethodType(_handing_on, layer), last=layer is layers[-1])


def take_on(expert: Any) -> None:
    """Makes the layers of a transformers model take keys and values of another beside their hidden states, in place."""
    for layer in expert.layers:
        layer.forward = MethodType(_taking_on, layer)


def _handing_on(self: nn.Module, hidden: Tensor, *, last: bool, **others: Any) -> tuple[Tensor | None, Tensor, Tensor]:
    made = _Made(last)
    after = None
    with contextlib.suppress(_Enough):
        after = type(self).forward(self, hidden, past_key_values=made, **others)
    return after, made.key, made.value


def _taking_on(self: nn.Module, hidden: Tensor, key: Tensor, value: Tensor, **others: Any) -> Tensor:
    return type(self).forward(self, hidden, past_key_values=_Given(key, value), **others)


class _Enough(Exception):
    """Nothing behind this point of a layer is needed."""


class _Made:
    """In the place of a layer's cache: takes what the layer has made."""

    key: Tensor
    value: Tensor

    def __init__(self, enough: bool) -> None:
        self.enough = enough

    def update(self, key: Tensor, value: Tensor, *_: Any) -> KeyValue:
        """Returns both as they are."""
        self.key, self.value = key, value
        if self.enough:
            raise _Enough
        return key, value


class _Given:
    """In the place of a layer's cache: holds what another layer has made."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value

    def update(self, key: Tensor, value: Tensor, *_: Any) -> KeyValue:
        """Returns the given ones and behind them the layer's own, in whose dtype the attention is."""
        return torch.cat([self.key.to(key.dtype), key], dim=2), torch.cat([self.value.to(value.dtype), value], dim=2)
