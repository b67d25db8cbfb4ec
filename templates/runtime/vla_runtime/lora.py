"""LoRA adapters: injected by peft before sharding, initialised after it, merged for packing."""

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from .errors import UserError
from .partition import Lora, Module, Partition, adapted_name, matches, saved_name

__all__ = ["Adapters", "Lora", "adapt", "base_names", "merged_state_dict"]

_ADAPTER = "default"
_ADAPTABLE = (nn.Linear, nn.Conv2d)
# torch's attention reads the weight of its output projection and never calls the layer: an adapter there would stay as it began.
_NEVER_CALLED = NonDynamicallyQuantizableLinear


@dataclass(frozen=True)
class Adapters:
    """The adapters of a model.

    Attributes:
        partition: of the model; its names tell adapters from base weights.
        seed: of their initial values.
        layers: names of the adapted layers, by module.
    """

    partition: Partition
    seed: int
    layers: dict[str, list[str]]

    def count(self) -> int:
        """Number of the adapters' parameters."""
        return sum(
            parameter.numel() for name, parameter in self.partition.named_parameters() if saved_name(name) is None
        )

    @torch.no_grad()
    def initialise(self) -> None:
        """Gives every adapter its first values: A uniform in +-1/sqrt(inputs) as peft does, B zero.

        A value depends on the seed and the parameter's name alone, so that it is the same for any number of processes. Call it
        after `shard`, when the parameters are allocated, and before a checkpoint is loaded.
        """
        for name, parameter in self.partition.named_parameters():
            if saved_name(name) is not None:
                continue
            full = torch.zeros(parameter.shape, dtype=torch.float64)
            if ".lora_A." in name:
                digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
                generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
                bound = 1 / math.sqrt(math.prod(parameter.shape[1:]))
                full.uniform_(-bound, bound, generator=generator)
            full = full.to(parameter.device, parameter.dtype)
            if isinstance(parameter, DTensor):
                full = distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)
            parameter.copy_(full)


def adapt(model: nn.Module, partition: Partition, *, seed: int) -> Adapters:
    """Injects the declared adapters in place. Call it before `add_recompute` and `shard`.

    The base weights of an adapted module never train; its freeze phases speak of the adapters from here on.

    Args:
        model: whose layers are adapted; on the meta device the adapters are there too, until `Adapters.initialise`.
        partition: modules with `lora` name their layers by `targets`.
        seed: of the initial values.

    Raises:
        UserError: a target that names no linear or convolution layer of the module, or one whose weight is tied.
    """
    layers: dict[str, list[str]] = {}
    configs: list[LoraConfig] = []
    for module in partition.modules.values():
        if module.lora is None:
            continue
        layers[module.name] = _targets(model, partition, module, module.lora)
        configs.append(
            LoraConfig(
                r=module.lora.rank,
                lora_alpha=module.lora.alpha,  # pyright: ignore[reportArgumentType] - peft says int, and divides it by the rank
                lora_dropout=module.lora.dropout,
                target_modules=layers[module.name],
            )
        )
    if not configs:
        raise UserError("No module declares `lora`, so that there is nothing to adapt.")
    for config in configs:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Already found a `peft_config` attribute.*")
            warnings.filterwarnings("ignore", message=".*multiple adapters.*")
            inject_adapter_in_model(
                config, model, _ADAPTER, low_cpu_mem_usage=any(p.is_meta for p in model.parameters())
            )
    partition.set_flags()  # peft has frozen all but its own
    return Adapters(partition, seed, layers)


def _targets(model: nn.Module, partition: Partition, module: Module, lora: Lora) -> list[str]:
    names = partition.names(module.name)
    dead = set(partition.dead())
    owned = set(names)
    weights: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        weights.setdefault(parameter, []).append(name)
    candidates = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _ADAPTABLE)
        and not isinstance(layer, _NEVER_CALLED)
        and any(alias in owned for alias in weights.get(layer.weight, []))
    }
    if lora.targets is None:
        chosen = [
            name for name, layer in candidates.items() if isinstance(layer, nn.Linear) and f"{name}.weight" not in dead
        ]
    else:
        chosen = []
        hit: set[str] = set()
        for name in candidates:
            found = [
                t for t in lora.targets if (matches(name, [t]) if "*" in t else name == t or name.endswith(f".{t}"))
            ]
            hit.update(found)
            if found:
                chosen.append(name)
        missing = [target for target in lora.targets if target not in hit]
        if missing:
            raise UserError(
                f"The LoRA targets {missing} of module {module.name} name no linear or convolution layer of it."
            )
    if not chosen:
        raise UserError(f"Module {module.name} has no linear layer to adapt.")
    for name in chosen:
        aliases = weights[candidates[name].weight]
        if len(aliases) > 1:
            raise UserError(
                f"{' and '.join(aliases)} are tied; an adapter on {name} would untie them. Leave it out of the targets."
            )
    return chosen


def base_names(partition: Partition) -> dict[str, str]:
    """For each key of the base model's weights, the present name of its parameter (peft moves it into `base_layer`)."""
    saved = ((saved_name(name), name) for name, _ in partition.named_parameters())
    return {key: name for key, name in saved if key is not None}


def merged_state_dict(state: Mapping[str, torch.Tensor], modules: Sequence[Module]) -> dict[str, torch.Tensor]:
    """A full state dict with the adapters added to the weights that they change, under the base model's keys.

    The sum is made in fp32 at least and rounded once, to the dtype of the base weight.

    Args:
        state: whole tensors, as gathered from a checkpoint; without adapters it comes back as it is.
        modules: the declaration's, for alpha and rank.
    """
    merged = {key: tensor for name, tensor in state.items() if (key := saved_name(name)) is not None}
    for name, up in state.items():
        if ".lora_B." not in name:
            continue
        key = adapted_name(name)
        lora = next((m.lora for m in modules if matches(key, m.parameters)), None)
        if lora is None:
            raise UserError(f"The checkpoint holds an adapter for {key}, but its module declares no `lora`.")
        down = state[name.replace(".lora_B.", ".lora_A.")]
        base = merged[key]
        precise = torch.promote_types(torch.float32, torch.promote_types(base.dtype, up.dtype))
        delta = up.to(precise).flatten(1) @ down.to(precise).flatten(1)
        merged[key] = (base.to(precise) + delta.reshape(base.shape) * (lora.alpha / lora.rank)).to(base.dtype)
    return merged
