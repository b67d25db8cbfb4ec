"""One training run made twice: by the runtime on several processes, and by plain PyTorch on one, over the whole batch at once."""

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal
from unittest.mock import patch

import plain_joint
import torch
import torch.distributed as dist
import toy
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn import functional as F
from vla_runtime import lora, mesh, optim, partition, recompute, sharding
from vla_runtime.modeling import expert
from vla_runtime.modeling.batch import Batch
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

UPDATES, BATCH = 3, 12
CLIP, WARMUP = 0.5, 2
LORA = partition.Lora(rank=2, alpha=3.0, targets=["q_proj", "v_proj"])
# Where the blocks of the toy and of the real model stand.
TOWER = {True: "vision_backbone.blocks", False: "vision_backbone.featurizer.blocks"}
LAYERS = {True: "language_model.layers", False: "language_model.model.layers"}

# Of a trunk whose keys and values alone are read.
UNREAD = ["self_attn.q_proj", "self_attn.o_proj", "mlp", "post_attention_layernorm"]

Decoder = Literal["toy", "tokens", "regression", "flowMatching", "joint"]


@dataclass(frozen=True)
class Case:
    """What varies between the runs."""

    strategy: sharding.Strategy = "full"
    recompute: Literal["none", "full"] = "none"
    accumulation: int = 1
    adapt: bool = False
    decoder: Decoder = "toy"
    ragged: bool = True
    boundary: bool = False
    expert_only: bool = False
    bf16: bool = False
    world: int = 2
    mutant: str | None = None

    def __str__(self) -> str:
        words = [
            self.strategy,
            self.decoder,
            f"x{self.accumulation}",
            *([f"{self.world}-processes"] if self.world != 2 else []),
        ]
        flags = {
            "recompute": self.recompute == "full",
            "lora": self.adapt,
            "ragged": self.ragged,
            "boundary": self.boundary,
            "expert-only": self.expert_only,
            "bf16": self.bf16,
        }
        return "-".join(words + [word for word, said in flags.items() if said] + ([self.mutant] if self.mutant else []))


@dataclass
class Result:
    """Gradients as the optimizer met them, per update, the norms before clipping, and the weights at the end; by saved name."""

    gradients: list[dict[str, torch.Tensor]]
    norms: list[dict[str, float]]
    weights: dict[str, torch.Tensor]


# The run: weights, samples, modules


def build(case: Case) -> nn.Module:
    """The same model on every call."""
    torch.manual_seed(11)
    causal = case.mutant == "causal mask"
    if case.decoder == "toy":
        return toy.Toy(mask="causal" if causal else "full")
    tower = {
        "source": "timm",
        "name": "vit_tiny_patch16_224",
        "image_size": 8,
        "output": "tokens",
        "layer": -2,
        "norm": "native",
        "mean": [0.5, 0.4, 0.3],
        "std": [0.2, 0.3, 0.4],
        "options": {"patch_size": 4, "embed_dim": 16, "depth": 4, "num_heads": 2},
    }
    llama = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": 259,
    }
    if case.decoder == "joint":
        llama["num_key_value_heads"] = 1
    decoders = {
        "tokens": {"decoder": "tokens", "chunk": toy.CHUNK, "bins": 16},
        "regression": {"decoder": "regression", "chunk": toy.CHUNK, "hidden": 16, "blocks": 1},
        "flowMatching": {
            "decoder": "flowMatching",
            "chunk": toy.CHUNK,
            "hidden": 16,
            "layers": 2,
            "heads": 2,
            "steps": 2,
        },
        "joint": {
            "decoder": "flowMatching",
            "attention": "joint",
            "chunk": toy.CHUNK,
            "hidden": 10,
            "mlp": 14,
            "steps": 2,
        },
    }
    return ComposedVLA(
        VLAConfig(
            cameras=("front",),
            vision=[tower],
            projector={"kind": "mlp", "layers": 2},
            language={"config": {"model_type": "llama", **llama}, "tokenizer": "bytes", "spare_tokens": 16},
            action=decoders[case.decoder],
            state_dim=toy.STATE,
            action_dim=toy.ACTION,
            mask="causal" if causal else "full" if case.decoder == "regression" else "prefix",
        )
    )


def modules(case: Case) -> list[partition.Module]:
    """The declaration. With a boundary, vision is frozen, then trains its last live block, then all; projector and language pause."""
    changes: dict[str, dict[str, Any]] = {name: {"recompute": case.recompute} for name in ("vision", "language")}
    changes |= {name: {} for name in ("projector", "action")}
    for name, change in changes.items():
        change["dtype"] = "fp64" if not case.bf16 else "fp32" if name == "action" else "bf16"
    if case.boundary:
        changes["vision"]["freeze"] = [
            partition.Frozen(1),
            partition.LastLayers(1, until=2, rewarm=2),
            partition.AllTrain(),
        ]
        changes["projector"]["freeze"] = [partition.AllTrain(1), partition.Frozen(2), partition.AllTrain(rewarm=2)]
        changes["language"]["freeze"] = [partition.LastLayers(1, until=2), partition.AllTrain()]
    if case.expert_only:
        for name in ("vision", "projector", "language"):
            changes[name]["freeze"] = [partition.Frozen()]
    if case.adapt:
        changes["language"]["lora"] = LORA
    if case.decoder != "toy":
        changes["vision"]["blocks"] = [f"{TOWER[False]}.*"]
        changes["vision"]["dead"] = [f"{TOWER[False]}.3.*", "vision_backbone.featurizer.norm.*"]
        changes["language"]["blocks"] = [f"{LAYERS[False]}.*"]
        if case.decoder in ("flowMatching", "joint"):
            stack = "action_head.transformer.layers.*" if case.decoder == "joint" else "action_head.blocks.*"
            changes["action"]["blocks"] = [stack]
            changes["action"]["recompute"] = case.recompute
        if case.decoder == "joint":
            unread = [f"{LAYERS[False]}.1.{part}.*" for part in UNREAD]
            changes["projector"]["parameters"] = ["projector.*"]  # the expert reads the state itself
            changes["language"]["dead"] = [*unread, "language_model.model.norm.*"]
    declared = toy.toy_modules(**changes)
    return [module for module in declared if module.name != "action" or case.decoder != "tokens"]


def adapter_values(name: str, shape: torch.Size) -> torch.Tensor:
    """Values for an adapter's weight, B included, from its name alone."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 0.1


def noise(update: int, position: int, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise and time of a sample, from the update and its position in the global batch."""
    generator = torch.Generator().manual_seed(1_000 * update + position)
    return torch.randn(shape, generator=generator, dtype=torch.float64), torch.rand(
        (), generator=generator, dtype=torch.float64
    )


def samples(
    case: Case, update: int, positions: list[int], noise_of: Callable[[int], int] = lambda position: position
) -> Batch:
    """The samples at these positions of the update's global batch."""
    made: list[dict[str, torch.Tensor]] = []
    length = 7
    for position in positions:
        g = torch.Generator().manual_seed(77_000 + 100 * update + position)
        words = int(torch.randint(2, length + 1, (), generator=g)) if case.ragged else length
        steps = int(torch.randint(1, toy.CHUNK + 1, (), generator=g)) if case.ragged else toy.CHUNK
        drawn, time = noise(update, noise_of(position), (toy.CHUNK, toy.ACTION))
        made.append(
            {
                "image": torch.rand(3, 8, 8, generator=g, dtype=torch.float64),
                "prompt": torch.randint(1, toy.VOCAB, (length,), generator=g),
                "prompt_mask": torch.arange(length) < words,
                "state": torch.randn(toy.STATE, generator=g, dtype=torch.float64),
                "actions": torch.rand(toy.CHUNK, toy.ACTION, generator=g, dtype=torch.float64) * 2 - 1,
                "valid": torch.arange(toy.CHUNK) < steps,
                "noise": drawn,
                "time": time,
                "positions": torch.tensor(position),
            }
        )
    stacked = {key: torch.stack([sample[key] for sample in made]) for key in made[0]}
    if case.bf16:
        stacked = {key: value.float() if value.is_floating_point() else value for key, value in stacked.items()}
    image = stacked.pop("image")
    return Batch(images={"front": image}, dataset=["toy"] * len(made), **stacked)


def shares(case: Case, rank: int) -> list[list[int]]:
    """Positions of each micro-batch of a rank."""
    micro = BATCH // case.world // case.accumulation
    return [[(step * case.world + rank) * micro + i for i in range(micro)] for step in range(case.accumulation)]


# By plain PyTorch


class PlainLora(nn.Module):
    """A linear layer with an adapter."""

    def __init__(self, base: nn.Linear, name: str, rank: int, scale: float) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(adapter_values(f"{name}.lora_A", torch.Size((rank, base.in_features))))
        self.up = nn.Parameter(adapter_values(f"{name}.lora_B", torch.Size((base.out_features, rank))))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Base output plus the scaled low-rank one."""
        return self.base(x) + self.scale * F.linear(F.linear(x, self.down), self.up)


def _plain_lora(model: nn.Module) -> None:
    for name, layer in list(model.named_modules()):
        if name.startswith("language_model.") and name.rpartition(".")[2] in ("q_proj", "v_proj"):
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, PlainLora(layer, name, 2, 3.0 / 2))  # pyright: ignore[reportArgumentType]


def _plain_name(name: str) -> str:
    name = name.replace(".base.", ".")
    for plain, saved in ((".down", ".lora_A"), (".up", ".lora_B")):
        if name.endswith(plain):
            return name.removesuffix(plain) + saved
    return name


def _module_of(name: str) -> str:
    prefixes = {"vision_backbone": "vision", "language_model": "language", "action_head": "action"}
    return prefixes.get(name.split(".")[0], "projector")


def _dead(case: Case, name: str) -> bool:
    tower = TOWER[case.decoder == "toy"]
    dead = [f"{tower}.3.", tower.replace("blocks", "norm.")]
    if case.decoder == "joint":
        dead += [f"{LAYERS[False]}.1.{part}." for part in UNREAD] + ["language_model.model.norm."]
    return name.startswith(tuple(dead))


def _trains(case: Case, name: str, update: int) -> bool:
    """By hand what `modules` declares."""
    module = _module_of(name)
    if _dead(case, name):
        return False
    adapter = name.endswith((".lora_A", ".lora_B"))
    if case.adapt and module == "language" and not adapter:
        return False
    if case.expert_only and module != "action":
        return False
    if not case.boundary or module == "action":
        return True
    if module == "vision":
        return update >= 2 or (update == 1 and name.startswith(f"{TOWER[case.decoder == 'toy']}.2."))
    if module == "projector":
        return update != 1
    return update >= 2 or name.startswith(f"{LAYERS[case.decoder == 'toy']}.1.")


def _lr(case: Case, name: str, update: int) -> float:
    peak = {"vision": 3e-3, "projector": 1e-2, "language": 5e-3, "action": 1e-2}[_module_of(name)]
    ramp = (
        (update + 1) / WARMUP
        if update < WARMUP
        else 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (update - WARMUP) / (10 - WARMUP)))
    )
    if case.boundary and _module_of(name) == "vision" and name.startswith(f"{TOWER[case.decoder == 'toy']}.2."):
        ramp *= min(1.0, (update - 1 + 1) / 2)
    if case.boundary and _module_of(name) == "projector" and update >= 2:
        ramp *= min(1.0, (update - 2 + 1) / 2)
    return peak * ramp


def _decay(name: str, parameter: torch.Tensor) -> float:
    decay = {"vision": 0.05, "projector": 0.01, "language": 0.1, "action": 0.1}[_module_of(name)]
    return decay if parameter.ndim > 1 else 0.0


def _plain_losses(case: Case, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, int]:
    """Sum of the losses that count, and their number, one sample at a time.

    Padding of the prompt never meets the model, and actions behind the end of the episode are replaced by nonsense.
    """
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for i in range(batch.size):
        words, steps = int(_there(batch.prompt_mask)[i].sum()), int(_there(batch.valid)[i].sum())
        one = batch.map(lambda tensor, i=i: tensor[i : i + 1].clone())
        _there(one.actions)[:, steps:] = 0.7
        _there(one.noise)[:, steps:] = 55.0
        one = replace(one, prompt=one.prompt[:, :words], prompt_mask=_there(one.prompt_mask)[:, :words])
        if case.decoder == "joint":  # an expert reads any number of actions, so that these never meet it
            cut = {key: _there(getattr(one, key))[:, :steps] for key in ("actions", "noise", "valid")}
            one = replace(one, **cut)  # pyright: ignore[reportArgumentType]
        losses, numbers = model(one)[0], steps * toy.ACTION
        if case.decoder == "tokens":
            whole = steps == toy.CHUNK  # then the token that ends the answer is taught too
            total = total + losses[:numbers].sum() + (losses[-1] if whole else 0.0)
            numbers += whole
        else:
            total = total + losses[:steps].sum()
        count += numbers
    return total, count


def _there(tensor: torch.Tensor | None) -> torch.Tensor:
    assert tensor is not None
    return tensor


class _Rounded(nn.Module):
    """Computes with rounded copies of fp32 masters, as FSDP2 gathers them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> torch.Tensor:
        """The model's losses."""
        low = {n: p if _module_of(n) == "action" else p.to(torch.bfloat16) for n, p in self.model.named_parameters()}
        return torch.func.functional_call(self.model, low, (batch,))


def reference(case: Case) -> Result:
    """One process, the whole batch, plain PyTorch."""
    torch.set_num_threads(1)
    model = build(replace(case, mutant=None))
    model = model.float() if case.bf16 else model.double()
    if case.decoder == "joint" and not case.bf16:
        wrong = (
            case.mutant == "prefix sees the suffix"
        )  # the runtime has no place to make this mistake, so its twin makes it
        model.forward = lambda batch: plain_joint.losses(model, batch, prefix_sees_suffix=wrong)
    if case.adapt:
        _plain_lora(model)
    if case.bf16:
        for child in model.children():
            action = child is getattr(model, "action_head", None)
            child.compute_dtype = torch.float32 if action else torch.bfloat16  # pyright: ignore[reportArgumentType]
            if case.strategy == "ddp" and not action:
                child.forward = torch.autocast("cpu", dtype=torch.bfloat16)(child.forward)
    named = {_plain_name(name): parameter for name, parameter in model.named_parameters()}
    groups = [{"params": [p], "lr": 0.0, "weight_decay": _decay(n, p)} for n, p in named.items()]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=False, fused=False)
    result = Result([], [], {})
    for update in range(UPDATES):
        for (name, parameter), group in zip(named.items(), optimizer.param_groups, strict=True):
            trains = _trains(case, name, update)
            if trains and not (update > 0 and _trains(case, name, update - 1)):
                optimizer.state.pop(parameter, None)
            parameter.requires_grad_(trains)
            group["lr"] = _lr(case, name, update)
        if case.bf16:
            valid = _there(samples(case, update, list(range(BATCH))).valid)
            count = int(valid.sum()) * toy.ACTION + (int(valid.all(1).sum()) if case.decoder == "tokens" else 0)
            low = model if case.strategy == "ddp" else _Rounded(model)
            for rank in range(case.world):
                for positions in shares(case, rank):
                    (low(samples(case, update, positions)).sum() / count).backward()
        else:
            total, count = _plain_losses(case, model, samples(case, update, list(range(BATCH))))
            (total / count).backward()
        live = {name: p for name, p in named.items() if p.grad is not None}
        squares: dict[str, float] = {}
        for name, p in live.items():
            squares[_module_of(name)] = squares.get(_module_of(name), 0.0) + float(p.grad.double().square().sum())  # pyright: ignore[reportOptionalMemberAccess]
        result.norms.append({module: math.sqrt(square) for module, square in squares.items()})
        nn.utils.clip_grad_norm_(list(live.values()), CLIP)
        result.gradients.append({name: p.grad.clone() for name, p in live.items()})  # pyright: ignore[reportOptionalMemberAccess]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    result.weights = {name: p.detach().clone() for name, p in named.items()}
    return result


# By the runtime


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def _saved(name: str) -> str:
    return name.replace(".base_layer.", ".").replace(".default.weight", "")


@contextmanager
def _mutated(case: Case) -> Iterator[None]:
    """Plants a mistake into the runtime."""
    match case.mutant:
        case "gradients averaged":
            with patch.object(sharding.FSDPModule, "set_gradient_divide_factor", lambda self, factor: None):
                yield
        case "phase one update late":
            enter = partition.Partition.enter_phase
            with patch.object(
                partition.Partition,
                "enter_phase",
                lambda self, u, o, s: (enter(self, max(0, u - 1), o, s), s.apply(u))[0],
            ):
                yield
        case "decay on biases":
            with patch.object(optim, "decays", lambda name, parameter, bias_and_norm=False: True):
                yield
        case "padding counted":
            made = samples

            def unpadded(*args: Any, **kwargs: Any) -> Batch:
                batch = made(*args, **kwargs)
                return replace(batch, valid=torch.ones_like(batch.valid))  # pyright: ignore[reportArgumentType]

            with patch.dict(globals(), samples=unpadded):
                yield
        case "state sees the actions":

            def all_of_it(valid: torch.Tensor, state: bool) -> torch.Tensor:
                every = torch.cat([torch.ones_like(valid[:, :1]), valid], dim=1)
                return every[:, None].expand(-1, every.shape[1], -1)

            with patch.object(expert, "suffix_visible", all_of_it):
                yield
        case "padded actions are seen":
            blocks = expert.suffix_visible
            with patch.object(expert, "suffix_visible", lambda valid, state: blocks(torch.ones_like(valid), state)):
                yield
        case _:
            yield


def distributed(case: Case) -> Result | None:
    """What train.py does, on every rank of the pool; rank 0 returns the result."""
    with _mutated(case):
        return _distributed(case)


def _distributed(case: Case) -> Result | None:
    rank = dist.get_rank()
    device = mesh.device_mesh(shard=case.world, device="cpu")
    model = build(case)
    model = model.float() if case.bf16 else model.double()
    parts = partition.Partition(model, modules(case))
    if case.adapt:
        lora.adapt(model, parts, seed=0)
    recompute.add_recompute(model, parts)
    sharding.shard(model, device, parts, strategy=case.strategy, reduce=torch.float32)
    if case.adapt:
        for name, parameter in parts.named_parameters():
            if ".lora_" in name:
                full = adapter_values(_saved(name), parameter.shape).to(parameter.dtype)
                with torch.no_grad():
                    parameter.copy_(split_like(full, parameter))
    optimizer = optim.adamw(parts, betas=(0.9, 0.95), eps=1e-8)
    schedule = optim.cosine(optimizer, updates=10, warmup=WARMUP, floor=0.1)
    result = Result([], [], {})
    for update in range(UPDATES):
        parts.enter_phase(update, optimizer, schedule)
        seeded = (lambda position: rank) if case.mutant == "noise by rank" else (lambda position: position)
        batches = [samples(case, update, positions, seeded) for positions in shares(case, rank)]
        valid = mesh.global_sum(sum(model.valid_count(batch) for batch in batches), device)  # pyright: ignore[reportCallIssue]
        for batch in batches:
            loss = model(batch).sum() / valid
            loss.backward()
        norms = optim.clip_gradients(parts, CLIP)
        result.norms.append({name: float(norm) for name, norm in norms.items()})
        result.gradients.append({_saved(n): _whole(p.grad) for n, p in parts.trainable()})  # pyright: ignore[reportArgumentType]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    result.weights = {_saved(name): _whole(parameter) for name, parameter in parts.named_parameters()}
    return result if rank == 0 else None


def split_like(full: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A whole tensor, split as the parameter is."""
    if not isinstance(parameter, DTensor):
        return full
    return distribute_tensor(full, parameter.device_mesh, parameter.placements)


# Comparison


def differences(case: Case, ours: Result, plain: Result) -> dict[str, float]:
    """For each module the largest relative difference of the gradient over the updates, and that of the final weights."""
    worst: dict[str, float] = {}

    def compare(kind: str, a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
        for module in ("vision", "projector", "language", "action"):
            names = {n for n in a if _module_of(n) == module} | {n for n in b if _module_of(n) == module}
            if not names:
                continue
            if any(n not in a or n not in b for n in names):
                worst[f"{kind} {module}"] = math.inf
                continue
            gap = math.sqrt(sum(float((a[n].double() - b[n].double()).square().sum()) for n in names))
            size = math.sqrt(sum(float(b[n].double().square().sum()) for n in names))
            worst[f"{kind} {module}"] = max(worst.get(f"{kind} {module}", 0.0), gap / max(size, 1e-300))

    for a, b in zip(ours.gradients, plain.gradients, strict=True):
        compare("gradient", a, b)
    compare("weights", ours.weights, plain.weights)
    for a, b in zip(ours.norms, plain.norms, strict=True):
        for module, norm in a.items():
            expected = b.get(module, 0.0)
            worst["norms"] = max(
                worst.get("norms", 0.0), abs(norm - expected) / max(expected, 1e-300) if norm or expected else 0.0
            )
    return worst
