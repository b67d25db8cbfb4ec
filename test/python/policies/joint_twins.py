"""LeRobot's pi0, pi0.5, SmolVLA and X-VLA twice: by the runtime on several processes, and as LeRobot's own class on one, whole batch at once.

Weights move by plain gradient descent, so that rounding does not grow; gradients are compared at every update.
"""

import functools
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import tiny
import torch
import torch.distributed as dist
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from vla_runtime import lora, mesh, optim, partition, recompute, sharding
from vla_runtime.policies import joint, losses_flow
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.draws import PerSampleDraws
from vla_runtime.policies.spec import PolicySpec
from vla_runtime.policies.training import prepare

UPDATES, BATCH, SEED, STEP = 3, 8, 5, 1e-3
ADAPTED = ("q_proj", "v_proj")

Kind = Literal["pi0", "pi05", "smolvla", "xvla"]
Precision = Literal["fp32", "mixed", "bf16"]


@dataclass(frozen=True)
class Case:
    """What varies. `precision`: all fp32; language in bf16 and the rest in fp32; all in bf16."""

    kind: Kind
    strategy: sharding.Strategy = "full"
    recompute: Literal["none", "language", "expert", "both"] = "none"
    accumulation: int = 1
    adapt: bool = False
    boundary: bool = False
    ragged: bool = True
    precision: Precision = "fp32"
    mutant: str | None = None

    def __str__(self) -> str:
        words = [self.kind, self.strategy, self.recompute, f"x{self.accumulation}", self.precision]
        flags = {"lora": self.adapt, "boundary": self.boundary, "whole": not self.ragged}
        return "-".join(words + [word for word, said in flags.items() if said] + ([self.mutant] if self.mutant else []))


@dataclass
class Result:
    """By saved name: gradients before each step, and the weights at the end; and the loss of each update."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]
    weights: dict[str, Tensor]


@functools.cache
def directory() -> Path:
    """Holds what SmolVLA's constructor reads; made once per process."""
    return Path(tempfile.mkdtemp(prefix="vla-tiny-"))


def build(kind: str, seed: int = 0, **options: Any) -> PreTrainedPolicy:
    """The same policy on every call."""
    return tiny.policy(kind, directory(), seed, **options)


# Modules

_PI, _SMOL, _X = "model.paligemma_with_expert", "model.vlm_with_expert", "model.vlm"
_TRUNK = {
    "pi0": f"{_PI}.paligemma.model.language_model",
    "pi05": f"{_PI}.paligemma.model.language_model",
    "smolvla": f"{_SMOL}.vlm.model.text_model",
    "xvla": f"{_X}.language_model",
}
_EXPERT = {
    "pi0": f"{_PI}.gemma_expert.model",
    "pi05": f"{_PI}.gemma_expert.model",
    "smolvla": f"{_SMOL}.lm_expert",
    "xvla": "model.transformer",
}
_TOWER = {
    "pi0": f"{_PI}.paligemma.model.vision_tower",
    "pi05": f"{_PI}.paligemma.model.vision_tower",
    "smolvla": f"{_SMOL}.vlm.model.vision_model",
    "xvla": f"{_X}.vision_tower",
}
TOWER_BLOCKS = {
    "pi0": "vision_model.encoder.layers.*",
    "pi05": "vision_model.encoder.layers.*",
    "smolvla": "encoder.layers.*",
    "xvla": "blocks.*.*",
}
_PROJECTOR = {
    "pi0": f"{_PI}.paligemma.model.multi_modal_projector",
    "pi05": f"{_PI}.paligemma.model.multi_modal_projector",
    "smolvla": f"{_SMOL}.vlm.model.connector",
    "xvla": f"{_X}.multi_modal_projector",
}
# Roots that are units of their own beside the blocks; what is left to the root unit stands in ROOT.
UNITS: dict[str, list[str]] = {
    "pi0": [
        _TOWER["pi0"],
        _PROJECTOR["pi0"],
        f"{_PI}.paligemma.lm_head",
        f"{_TRUNK['pi0']}.embed_tokens",
        f"{_TRUNK['pi0']}.norm",
        f"{_PI}.gemma_expert.lm_head",
        f"{_EXPERT['pi0']}.norm",
        *(
            f"model.{name}"
            for name in ("state_proj", "action_in_proj", "action_out_proj", "action_time_mlp_in", "action_time_mlp_out")
        ),
    ],
    "smolvla": [
        _TOWER["smolvla"],
        _PROJECTOR["smolvla"],
        f"{_SMOL}.vlm.lm_head",
        f"{_TRUNK['smolvla']}.embed_tokens",
        f"{_TRUNK['smolvla']}.norm",
        f"{_EXPERT['smolvla']}.norm",
        *(
            f"model.{name}"
            for name in ("state_proj", "action_in_proj", "action_out_proj", "action_time_mlp_in", "action_time_mlp_out")
        ),
    ],
    "xvla": [
        _TOWER["xvla"],
        _PROJECTOR["xvla"],
        f"{_TRUNK['xvla']}.encoder.embed_positions",
        f"{_TRUNK['xvla']}.encoder.layernorm_embedding",
        *(
            f"model.transformer.{name}"
            for name in (
                "vlm_proj",
                "aux_visual_proj",
                "norm",
                "soft_prompt_hub",
                "action_encoder",
                "action_decoder",
            )
        ),
    ],
}
UNITS["pi05"] = [
    *(name for name in UNITS["pi0"] if not name.startswith(("model.state_proj", "model.action_time"))),
    "model.time_mlp_in",
    "model.time_mlp_out",
]
ROOT: dict[str, set[str]] = {
    "pi0": set(),
    "pi05": set(),
    "smolvla": set(),
    "xvla": {
        f"{_TRUNK['xvla']}.shared.weight",
        f"{_TRUNK['xvla']}.encoder.embed_tokens.weight",
        "model.transformer.pos_emb",
    },
}


def modules(case: Case, dead: list[str]) -> list[partition.Module]:
    """The declaration. With a boundary the trunk is frozen, then trains its last live block, then all; the tower pauses."""
    kind = case.kind
    joined = kind != "xvla"
    trunk, expert = _TRUNK[kind], _EXPERT[kind]
    heads = ["model.transformer.action_*"] if not joined else ["model.action_*"]
    heads += {"pi0": ["model.state_proj.*"], "pi05": ["model.time_*"], "smolvla": ["model.state_proj.*"], "xvla": []}[
        kind
    ]
    acting = {
        "pi0": [f"{_PI}.gemma_expert.*"],
        "pi05": [f"{_PI}.gemma_expert.*"],
        "smolvla": [f"{expert}.*"],
        "xvla": [
            f"{expert}.{name}"
            for name in ("blocks.*", "vlm_proj.*", "aux_visual_proj.*", "pos_emb", "norm.*", "soft_prompt_hub.*")
        ],
    }[kind]
    speaking = [f"{trunk}.*"] + {
        "pi0": [f"{_PI}.paligemma.lm_head.*"],
        "pi05": [f"{_PI}.paligemma.lm_head.*"],
        "smolvla": [f"{_SMOL}.vlm.lm_head.*"],
        "xvla": [],
    }[kind]
    declared: dict[str, dict[str, Any]] = {
        "vision": {"parameters": [f"{_TOWER[kind]}.*"], "blocks": [f"{_TOWER[kind]}.{TOWER_BLOCKS[kind]}"]},
        "projector": {"parameters": [f"{_PROJECTOR[kind]}.*"]},
        "language": {"parameters": speaking, "blocks": [f"{trunk}.{'' if joined else 'encoder.'}layers.*"]},
        "expert": {"parameters": acting, "blocks": [f"{expert}.{'layers' if joined else 'blocks'}.*"]},
        "heads": {"parameters": heads},
    }
    for name, values in declared.items():
        values["lr"] = 1e-3
        low = case.precision == "bf16" or (case.precision == "mixed" and name == "language")
        values["dtype"] = "bf16" if low else "fp32"
    for name in dead:
        owner = next(key for key, values in declared.items() if partition.matches(name, values["parameters"]))
        declared[owner].setdefault("dead", []).append(name)
    for name in {
        "none": (),
        "language": ("language",),
        "expert": ("expert",),
        "both": ("vision", "language", "expert"),
    }[case.recompute]:
        declared[name]["recompute"] = "full"
    if case.adapt:
        declared["language"]["lora"] = partition.Lora(rank=2, alpha=3.0, targets=ADAPTED)
    if case.boundary:
        declared["language"]["freeze"] = [
            partition.Frozen(1),
            partition.LastLayers(1, until=2),
            partition.AllTrain(),
        ]
        declared["vision"]["freeze"] = [partition.AllTrain(1), partition.Frozen(2), partition.AllTrain()]
    return [partition.Module(name, **values) for name, values in declared.items()]


def module_of(kind: str, name: str) -> str:
    """By hand what `modules` declares."""
    if name.startswith(_TOWER[kind]):
        return "vision"
    if name.startswith(_PROJECTOR[kind]):
        return "projector"
    if name.startswith((_TRUNK[kind] + ".", f"{_PI}.paligemma.lm_head", f"{_SMOL}.vlm.lm_head")):
        return "language"
    if name.startswith((f"{_PI}.gemma_expert", f"{_SMOL}.lm_expert")):
        return "expert"
    if kind == "xvla" and not name.startswith("model.transformer.action_"):
        return "expert"
    return "heads"


def _trains(case: Case, name: str, update: int, dead: set[str]) -> bool:
    """By hand what `modules` declares."""
    module = module_of(case.kind, name)
    adapter = name.endswith((".lora_A", ".lora_B"))
    if name in dead or (case.adapt and module == "language" and not adapter):
        return False
    if case.boundary and module == "vision":
        return update != 1
    if case.boundary and module == "language":
        live = {"pi0": tiny.DEPTH - 1, "pi05": tiny.DEPTH - 1, "smolvla": 3, "xvla": 1}[case.kind]
        return update >= 2 or (update == 1 and f".layers.{live}." in name)
    return True


# Samples


def samples(case: Case, update: int, positions: list[int]) -> PolicyBatch:
    """The samples at these positions of an update's global batch."""
    made: list[dict[str, Tensor]] = []
    for position in positions:
        g = torch.Generator().manual_seed(31_000 + 100 * update + position)
        words = int(torch.randint(2, tiny.TOKENS + 1, (), generator=g)) if case.ragged else tiny.TOKENS
        steps = int(torch.randint(1, tiny.CHUNK + 1, (), generator=g)) if case.ragged else tiny.CHUNK
        made.append(
            {
                **{
                    f"observation.images.{camera}": torch.rand(3, tiny.IMAGE, tiny.IMAGE, generator=g)
                    for camera in tiny.CAMERAS
                },
                "observation.state": torch.randn(tiny.STATE, generator=g),
                "observation.language.tokens": torch.randint(3, 250, (tiny.TOKENS,), generator=g),
                "observation.language.attention_mask": torch.arange(tiny.TOKENS) < words,
                "action": torch.randn(tiny.CHUNK, tiny.ACTION, generator=g),
                "valid": torch.arange(tiny.CHUNK) < steps,
            }
        )
    stacked = {key: torch.stack([sample[key] for sample in made]) for key in made[0]}
    valid = stacked.pop("valid")
    stacked["action_is_pad"] = ~valid
    return PolicyBatch(stacked, valid, positions, update, SEED)


def shares(case: Case, rank: int, world: int) -> list[list[int]]:
    """Positions of each micro-batch of a rank."""
    micro = BATCH // world // case.accumulation
    return [[(step * world + rank) * micro + i for i in range(micro)] for step in range(case.accumulation)]


# As LeRobot's own class


class PlainLora(nn.Module):
    """A linear layer with an adapter."""

    def __init__(self, base: nn.Linear, name: str) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(adapter_values(f"{name}.lora_A", (2, base.in_features)))
        self.up = nn.Parameter(adapter_values(f"{name}.lora_B", (base.out_features, 2)))
        self.weight = base.weight  # LeRobot reads its dtype
        del self._parameters["weight"]
        object.__setattr__(self, "weight", base.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Base output plus the scaled low-rank one."""
        return self.base(x) + 1.5 * nn.functional.linear(nn.functional.linear(x, self.down), self.up)


def adapter_values(name: str, shape: tuple[int, ...]) -> Tensor:
    """Values for an adapter's weight, B included, from its name alone."""
    generator = torch.Generator().manual_seed(sum(ord(letter) * (i + 1) for i, letter in enumerate(name)))
    return torch.randn(shape, generator=generator) * 0.1


def _plain_lora(case: Case, policy: nn.Module) -> None:
    for name, layer in list(policy.named_modules()):
        if name.startswith(_TRUNK[case.kind]) and name.rpartition(".")[2] in ADAPTED:
            parent, _, child = name.rpartition(".")
            setattr(policy.get_submodule(parent), child, PlainLora(layer, name))  # pyright: ignore[reportArgumentType]


def _plain_name(name: str) -> str:
    name = name.replace(".base.", ".")
    for plain, saved in ((".down", ".lora_A"), (".up", ".lora_B")):
        if name.endswith(plain):
            return name.removesuffix(plain) + saved
    return name


def _drawn(policy: Any, batch: PolicyBatch) -> tuple[Tensor, Tensor]:
    """Noise and times, each sample's drawn when it is alone."""
    width = policy.config.max_action_dim
    noises, times = [], []
    for position in batch.positions:
        with PerSampleDraws(SEED, batch.update, [position]):
            noises.append(policy.model.sample_noise((1, tiny.CHUNK, width), torch.device("cpu")))
            times.append(policy.model.sample_time(1, torch.device("cpu")))
    return torch.cat(noises), torch.cat(times)


def plain_elements(policy: Any, batch: PolicyBatch) -> Tensor:
    """Losses [B, C, A] by LeRobot's own model."""
    inputs = batch.tensors
    if policy.config.type == "xvla":
        return _xvla_elements(policy, batch)
    noise, time = _drawn(policy, batch)
    smol = policy.config.type == "smolvla"
    images, seen = policy.prepare_images(inputs) if smol else policy._preprocess_images(inputs)
    state = [] if policy.config.type == "pi05" else [policy.prepare_state(inputs)]
    tokens, mask = inputs["observation.language.tokens"], inputs["observation.language.attention_mask"]
    losses = policy.model.forward(images, seen, tokens, mask, *state, policy.prepare_action(inputs), noise, time)
    return losses[..., : tiny.ACTION]


def _xvla_elements(policy: Any, batch: PolicyBatch) -> Tensor:
    """One sample at a time, through LeRobot's `forward`, with its two draws replaced and its output overheard."""
    losses = []
    for index, position in enumerate(batch.positions):
        one = {name: value[index : index + 1] for name, value in batch.tensors.items()}
        with PerSampleDraws(SEED, batch.update, [position]):
            noise = torch.randn(1, tiny.CHUNK, policy.model.dim_action)
        time = losses_flow.stratified_times(SEED, batch.update, [position]).float()
        heard: list[Tensor] = []
        handle = policy.model.transformer.register_forward_hook(lambda _m, _i, output: heard.append(output))  # noqa: B023
        draw = torch.rand

        def given(*size: Any, time: Tensor = time, draw: Any = draw, **named: Any) -> Tensor:
            return time if size == (1,) else draw(*size, **named)

        with patch.object(torch, "rand", given), patch.object(torch, "randn_like", lambda like, noise=noise: noise):
            policy.forward(one)
        handle.remove()
        losses.append((heard[0][..., : tiny.ACTION] - one["action"]).square())
    return torch.cat(losses)


def reference(case: Case) -> Result:
    """One process, the whole batch, LeRobot's own class."""
    torch.set_num_threads(1)
    policy = build(case.kind)
    if case.adapt:
        _plain_lora(case, policy)
    named = {_plain_name(name): parameter for name, parameter in policy.named_parameters()}
    dead = set(joint.dead_parameters(policy))
    return _descend(case, named, dead, lambda batch: plain_elements(policy, batch))


def rounded_reference(case: Case) -> Result:
    """One process whose modules compute with rounded copies of fp32 weights, through the joined layers, without sharding."""
    torch.set_num_threads(1)
    policy = build(case.kind)
    prepare(policy, spec(case.kind))
    parts = partition.Partition(policy, modules(case, joint.dead_parameters(policy)))
    lowered: dict[str, torch.dtype] = {}
    for module in parts.modules.values():
        for root in parts.roots(module.name):
            child: Any = policy.get_submodule(root)
            child.compute_dtype = module.compute_dtype
            if not getattr(child, "casts_own_inputs", False):
                child.register_forward_pre_hook(sharding._cast_inputs, with_kwargs=True)
        lowered |= dict.fromkeys(parts.names(module.name), module.compute_dtype)
    losses = losses_flow.FLOW_LOSSES[case.kind]
    named = dict(policy.named_parameters())
    forward = policy.forward

    def elements(batch: PolicyBatch) -> Tensor:
        low = {name: parameter.to(lowered[name]) for name, parameter in named.items()}
        with patch.object(policy, "forward", lambda batch: losses.elements(policy, batch)), batch.draws():  # pyright: ignore[reportAttributeAccessIssue]
            return torch.func.functional_call(policy, low, (batch,))

    result = _descend(case, named, set(parts.dead()), elements)
    policy.forward = forward
    return result


def _descend(case: Case, named: dict[str, nn.Parameter], dead: set[str], elements: Any) -> Result:
    result = Result([], [], {})
    for update in range(UPDATES):
        for name, parameter in named.items():
            parameter.requires_grad_(_trains(case, name, update, dead))
            parameter.grad = None
        batch = samples(case, update, list(range(BATCH)))
        loss = (elements(batch) * batch.valid[..., None]).sum() / (batch.valid.sum() * tiny.ACTION)
        loss.backward()
        result.losses.append(float(loss.detach()))
        result.gradients.append({n: p.grad.clone() for n, p in named.items() if p.grad is not None})
        with torch.no_grad():
            for parameter in named.values():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=STEP)
    result.weights = {name: parameter.detach().clone() for name, parameter in named.items()}
    return result


# By the runtime


def spec(kind: str) -> PolicySpec:
    """Enough of a declaration for `prepare`."""
    return PolicySpec(
        kind, tiny.CAMERAS, dict.fromkeys(tiny.CAMERAS, (tiny.IMAGE, tiny.IMAGE)), tiny.STATE, tiny.ACTION
    )


def _saved(name: str) -> str:
    return name.replace(".base_layer.", ".").replace(".default.weight", "")


def _whole(tensor: Any) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


@contextmanager
def mutated(case: Case) -> Iterator[None]:
    """Plants a mistake into the runtime."""
    match case.mutant:
        case "noise by rank":
            init = PerSampleDraws.__init__
            rank = dist.get_rank()
            with patch.object(
                PerSampleDraws,
                "__init__",
                lambda self, seed, update, positions: init(self, seed, update, [rank] * len(positions)),
            ):
                yield
        case "expert past its hooks":
            run = joint._language_forward

            def past(
                self: Any, hidden: Any, suffix: Any = None, condition: Any = None, *, pair: Any = None, **o: Any
            ) -> Any:
                if pair is None or pair.expert is None:
                    return run(self, hidden, suffix, condition, pair=pair, **o)
                return pair.run(self, pair.expert, hidden, suffix, condition)

            with patch.object(joint, "_language_forward", past):
                yield
        case "expert in the trunk's dtype":
            dtypes = joint._compute_dtypes
            project, finish = joint._gemma_project, joint._gemma_finish
            smol_project, smol_finish = joint._smol_project, joint._smol_finish

            def low(function: Any) -> Any:
                def rounding(layer: Any, hidden: Tensor, *rest: Any, **named: Any) -> Any:
                    return function(layer, hidden.to(torch.bfloat16).to(hidden.dtype), *rest, **named)

                return rounding

            with (
                patch.object(joint, "_gemma_project", low(project)),
                patch.object(joint, "_gemma_finish", low(finish)),
                patch.object(joint, "_smol_project", low(smol_project)),
                patch.object(joint, "_smol_finish", low(smol_finish)),
                patch.object(joint, "_compute_dtypes", dtypes),
            ):
                yield
        case "gate forgotten":
            with patch.object(joint, "_gated", lambda hidden, added, gate: hidden + added):
                yield
        case "padding counted":
            made = samples

            def unpadded(*args: Any) -> PolicyBatch:
                batch = made(*args)
                batch.valid = torch.ones_like(batch.valid)
                return batch

            with patch.dict(globals(), samples=unpadded):
                yield
        case None:
            yield
        case _:
            raise ValueError(case.mutant)


def sharded(case: Case) -> tuple[Any, partition.Partition, Any]:
    """The policy, prepared and split over the processes, its partition, and the mesh."""
    world = dist.get_world_size()
    device = mesh.device_mesh(shard=world, device="cpu")
    policy: Any = build(case.kind)
    prepare(policy, spec(case.kind))
    parts = partition.Partition(policy, modules(case, joint.dead_parameters(policy)))
    if case.adapt:
        lora.adapt(policy, parts, seed=0)
    recompute.add_recompute(policy, parts)
    sharding.shard(policy, device, parts, strategy=case.strategy, reduce=torch.float32)
    if case.adapt:
        for name, parameter in parts.named_parameters():
            if ".lora_" in name:
                full = adapter_values(_saved(name), tuple(parameter.shape))
                if isinstance(parameter, DTensor):
                    full = distribute_tensor(full, parameter.device_mesh, parameter.placements)
                with torch.no_grad():
                    parameter.copy_(full)
    return policy, parts, device


def distributed(case: Case) -> Result | None:
    """What train.py does but for the optimizer; rank 0 returns the result."""
    with mutated(case):
        return _distributed(case)


def _distributed(case: Case) -> Result | None:
    rank, world = dist.get_rank(), dist.get_world_size()
    policy, parts, device = sharded(case)
    optimizer = optim.adamw(parts, betas=(0.9, 0.95), eps=1e-8)
    schedule = optim.cosine(optimizer, updates=10, warmup=1, floor=0.1)
    result = Result([], [], {})
    for update in range(UPDATES):
        parts.enter_phase(update, optimizer, schedule)
        batches = [samples(case, update, positions) for positions in shares(case, rank, world)]
        valid = mesh.global_sum(sum(policy.valid_count(batch) for batch in batches), device)  # pyright: ignore[reportArgumentType]
        total = torch.zeros(())
        for batch in batches:
            loss = (policy(batch) / valid).sum()
            loss.backward()
            total += loss.detach()
        result.losses.append(float(mesh.global_sum(total, device)))
        result.gradients.append({_saved(n): _whole(p.grad) for n, p in parts.trainable() if p.grad is not None})
        with torch.no_grad():
            for _, parameter in parts.trainable():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=STEP)
                    parameter.grad = None
    result.weights = {_saved(name): _whole(parameter) for name, parameter in parts.named_parameters()}
    return result if rank == 0 else None


# Comparison


def differences(case: Case, ours: Result, plain: Result) -> dict[str, float]:
    """For each module the largest relative difference of its gradient over the updates, and of its final weights."""
    worst: dict[str, float] = {}

    def compare(what: str, a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
        for module in ("vision", "projector", "language", "expert", "heads"):
            names = {n for n in (*a, *b) if module_of(case.kind, n) == module}
            # LeRobot has a zero where a parameter's only reader is thrown away; here it has no gradient.
            lacking = [n for n in names if n not in a or n not in b]
            zero = all(not b[n].any() if n in b else False for n in lacking)
            if not zero:
                worst[f"{what} {module}"] = math.inf
                continue
            names -= set(lacking)
            if names:
                gap = math.sqrt(sum(float((a[n].double() - b[n].double()).square().sum()) for n in names))
                size = math.sqrt(sum(float(b[n].double().square().sum()) for n in names))
                worst[f"{what} {module}"] = max(worst.get(f"{what} {module}", 0.0), gap / max(size, 1e-300))

    for a, b in zip(ours.gradients, plain.gradients, strict=True):
        compare("gradient", a, b)
    compare("weights", ours.weights, plain.weights)
    worst["loss"] = max(abs(a - b) / abs(b) for a, b in zip(ours.losses, plain.losses, strict=True))
    return worst
