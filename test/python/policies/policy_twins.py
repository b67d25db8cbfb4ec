"""One training run of a LeRobot policy made twice: by the runtime on two processes, and by plain PyTorch with LeRobot's own forward.

The plain run sees the whole global batch at once, so that LeRobot's own scalar loss is what the runtime must arrive at.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import small_specs
import torch
import torch.distributed as dist
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from vla_runtime import mesh, optim, partition, recompute, sharding
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.draws import sample_seed
from vla_runtime.policies.spec import PolicySpec, build_policy
from vla_runtime.policies.training import prepare

UPDATES, BATCH, SEED, CLIP = 3, 12, 5, 0.5
CLIP_DIRECTORY = Path(tempfile.gettempdir()) / "vla-policy-twins"
Kind = Literal["act", "diffusion", "multi_task_dit"]
EXACT = 1e-9
"""Largest relative norm of the gradient's difference; everything runs in fp64."""


@dataclass(frozen=True)
class Case:
    """What varies between the runs."""

    kind: Kind = "act"
    strategy: sharding.Strategy = "full"
    accumulation: int = 1
    recompute: Literal["none", "full"] = "none"
    boundary: bool = False
    padding: Literal["masked", "counted"] = "masked"
    cropped: bool = False
    mutant: str | None = None

    def __str__(self) -> str:
        flags = {"recompute": self.recompute == "full", "boundary": self.boundary, "cropped": self.cropped}
        words = [self.kind, self.strategy, f"x{self.accumulation}", *(word for word, said in flags.items() if said)]
        return "-".join([*words, self.padding, *([self.mutant] if self.mutant else [])])


@dataclass
class Result:
    """Per update the gradients before clipping, by name; the losses; the weights at the end."""

    gradients: list[dict[str, Tensor]]
    losses: list[float]
    weights: dict[str, Tensor]


def spec(case: Case) -> PolicySpec:
    """The declaration."""
    if case.kind == "act":
        return small_specs.act(padding=case.padding)
    if case.kind == "diffusion":
        crop = {"crop_shape": [20, 20], "crop_is_random": True} if case.cropped else {}
        # Its noise is fp32 whatever the policy computes in, which mse_loss would not take as a target in fp64.
        return small_specs.diffusion(padding=case.padding, config={"prediction_type": "sample", **crop})
    return small_specs.multi_task_dit(CLIP_DIRECTORY, padding=case.padding)


def build(case: Case) -> PreTrainedPolicy:
    """The same policy on every call, its biases and norms not all alike."""
    torch.manual_seed(11)
    policy = build_policy(spec(case))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    for module in policy.modules():
        if type(module).__name__ in ("DiffusionSinusoidalPosEmb", "SinusoidalPosEmb"):
            # LeRobot's are always fp32.
            module.register_forward_hook(lambda _m, _i, output: output.to(next(policy.parameters()).dtype))
    return policy


def modules(case: Case) -> list[partition.Module]:
    """The declaration of the modules. With a boundary vision is frozen, then trains its last block, then all of it."""
    shared: dict[str, Any] = {"dtype": "fp64", "weight_decay": 0.01}
    blocks: dict[str, Any] = {**shared, "recompute": case.recompute}
    freeze = (
        [partition.Frozen(1), partition.LastLayers(1, until=2), partition.AllTrain()]
        if case.boundary
        else [partition.AllTrain()]
    )
    Module = partition.Module
    if case.kind == "act":
        layers = ["model.vae_encoder.layers.*", "model.encoder.layers.*", "model.decoder.layers.*"]
        heads = ["model.*_input_proj.*", "model.*_output_proj.*", "model.*_embed.weight", "model.action_head.*"]
        return [
            Module(
                "vision", ["model.backbone.*"], lr=1e-4, blocks=["model.backbone.layer*.*"], freeze=freeze, **blocks
            ),
            Module(
                "transformer",
                ["model.vae_encoder.*", "model.encoder.*", "model.decoder.*"],
                lr=1e-3,
                blocks=layers,
                **blocks,
            ),
            Module("heads", heads, lr=1e-3, **shared),
        ]
    if case.kind == "diffusion":
        vision = ["diffusion.rgb_encoder.*.backbone.*.*"]
        unet = [f"diffusion.unet.{part}.*" for part in ("down_modules.*", "mid_modules", "up_modules.*")]
        # The random crop is drawn in the encoder, outside of its blocks.
        return [
            Module("vision", ["diffusion.rgb_encoder.*"], lr=1e-4, blocks=vision, freeze=freeze, **blocks),
            Module("unet", ["diffusion.unet.*"], lr=1e-3, blocks=unet, **blocks),
        ]
    text = "observation_encoder.text_encoder"
    pooled = (
        "observation_encoder.vision_encoder.model.vision_model.post_layernorm.*"  # LeRobot reads the layer before it
    )
    vision = ["observation_encoder.vision_encoder.*", f"{text}.projection.*"]
    layers = ["noise_predictor.transformer_blocks.*"]
    return [
        Module("text", [f"{text}.text_encoder.*"], freeze=[partition.Frozen()], dtype="fp64"),
        Module("encoders", vision, lr=1e-4, dead=[pooled], **shared),
        Module("transformer", ["noise_predictor.*"], lr=1e-3, blocks=layers, **blocks),
    ]


def samples(case: Case, update: int, positions: Sequence[int]) -> PolicyBatch:
    """The samples at these positions of the update's global batch, as a preprocessor hands them out."""
    policy = spec(case)
    time, chunk = (() if case.kind == "act" else (2,)), 4
    made: list[dict[str, Tensor]] = []
    for position in positions:
        g = torch.Generator().manual_seed(77_000 + 100 * update + position)
        steps = int(torch.randint(1, chunk + 1, (), generator=g))
        made.append(
            {
                "observation.images.front": torch.rand(*time, 3, small_specs.SIZE, small_specs.SIZE, generator=g),
                "observation.state": torch.randn(*time, policy.state_dim, generator=g),
                "action": torch.rand(chunk, policy.action_dim, generator=g) * 2 - 1,
                "action_is_pad": torch.arange(chunk) >= steps,
                "observation.language.tokens": torch.randint(2, 200, (8,), generator=g),
                "observation.language.attention_mask": torch.ones(8, dtype=torch.bool),
            }
        )
    tensors: dict[str, Any] = {name: torch.stack([sample[name] for sample in made]) for name in made[0]}
    tensors = {name: value.double() if value.is_floating_point() else value for name, value in tensors.items()}
    outside = tensors["action_is_pad"]
    valid = ~outside if case.padding == "masked" else torch.ones_like(outside)
    return PolicyBatch(tensors, valid, list(positions), update, SEED, ["one"] * len(made))


def trains(case: Case, name: str, update: int) -> bool:
    """By hand what `modules` declares."""
    if (
        "text_encoder.text_encoder." in name or "post_layernorm" in name
    ):  # LeRobot freezes the first and never reads the second
        return False
    if not case.boundary or not name.startswith(("model.backbone.", "diffusion.rgb_encoder.")):
        return True
    last = ("model.backbone.layer4.1.", "diffusion.rgb_encoder.0.backbone.7.1.")
    return update >= 2 or (update == 1 and name.startswith(last))


# By plain PyTorch


@contextmanager
def plain_draws(case: Case, update: int) -> Iterator[None]:
    """LeRobot's draws for the whole batch, each row by its own generator, without the runtime's context."""
    generators = [torch.Generator().manual_seed(sample_seed(SEED, update, position)) for position in range(BATCH)]

    def rows(draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        return torch.stack([draw(generator) for generator in generators])

    real_randn, real_randint = torch.randn, torch.randint
    dirichlet = torch._sample_dirichlet  # pyright: ignore[reportPrivateImportUsage]  # pyright: ignore[reportPrivateImportUsage]

    def randn(*size: Any, device: Any = None, **_: Any) -> Tensor:
        shape = size[0] if isinstance(size[0], Sequence) else size
        return rows(lambda g: real_randn(tuple(shape[1:]), generator=g))

    def randn_like(x: Tensor) -> Tensor:
        return rows(lambda g: real_randn(x.shape[1:], dtype=x.dtype, generator=g))

    def randint(*, low: int, high: int, size: Sequence[int], device: Any = None) -> Tensor:
        return rows(lambda g: real_randint(low, high, tuple(size[1:]), generator=g))

    def sample_dirichlet(concentration: Tensor) -> Tensor:
        return torch.stack([dirichlet(row, generator=g) for row, g in zip(concentration, generators, strict=True)])

    def crop(self: Any, pictures: Tensor) -> Tensor:
        high = pictures.shape[-1] - 20 + 1
        shares = rows(lambda g: torch.rand((2,), generator=g)) * high
        corners = shares.long().repeat_interleave(len(pictures) // BATCH, dim=0).tolist()
        return torch.stack([p[:, y : y + 20, x : x + 20] for p, (y, x) in zip(pictures, corners, strict=True)])

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch, "randn", randn))
        stack.enter_context(patch.object(torch, "randn_like", randn_like))
        stack.enter_context(patch.object(torch, "randint", randint))
        stack.enter_context(patch.object(torch, "_sample_dirichlet", sample_dirichlet))
        stack.enter_context(patch("torchvision.transforms.RandomCrop.forward", crop))
        yield


def reference(case: Case) -> Result:
    """One process, the whole batch, LeRobot's own forward and scalar loss."""
    torch.set_num_threads(1)
    case = replace(case, mutant=None)
    policy: Any = build(case).double()
    named = dict(policy.named_parameters())
    peaks = {
        name: 1e-4 if name.startswith(("model.backbone", "diffusion.rgb", "observation_encoder")) else 1e-3
        for name in named
    }
    groups = [
        {"params": [p], "lr": peaks[n], "weight_decay": 0.01 if optim.decays(n, p) else 0.0} for n, p in named.items()
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    result = Result([], [], {})
    for update in range(UPDATES):
        for name, parameter in named.items():
            parameter.requires_grad_(trains(case, name, update))
        batch = samples(case, update, range(BATCH))
        with plain_draws(case, update):
            loss = policy(dict(batch.tensors))[0]
        loss.backward()
        live = {name: p for name, p in named.items() if p.grad is not None}
        result.gradients.append({name: p.grad.clone() for name, p in live.items()})
        nn.utils.clip_grad_norm_(list(live.values()), CLIP)
        result.losses.append(float(loss))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    result.weights = {name: p.detach().clone() for name, p in named.items()}
    return result


# By the runtime


@contextmanager
def _mutated(case: Case, rank: int) -> Iterator[None]:
    """Plants a mistake into the runtime."""
    if case.mutant == "noise by rank":
        with patch("vla_runtime.policies.draws.sample_seed", lambda s, u, p: sample_seed(s, u, 1000 * rank + p)):
            yield
    elif case.mutant == "noise of the first update":
        with patch("vla_runtime.policies.draws.sample_seed", lambda s, u, p: sample_seed(s, 0, p)):
            yield
    elif case.mutant == "padding counted":
        made = samples

        def unpadded(*arguments: Any) -> PolicyBatch:
            batch = made(*arguments)
            nothing = torch.zeros_like(batch.tensors["action_is_pad"])
            return replace(batch, valid=~nothing, tensors={**batch.tensors, "action_is_pad": nothing})

        with patch.dict(globals(), samples=unpadded):
            yield
    elif case.mutant == "one denominator":
        from vla_runtime.policies.losses import Act

        with patch.object(Act, "counts", lambda self, policy, batch: batch.valid.sum().repeat(2) * batch.action_dim):
            yield
    elif case.mutant == "gradients averaged":
        with patch.object(sharding.FSDPModule, "set_gradient_divide_factor", lambda self, factor: None):
            yield
    else:
        yield


def distributed(case: Case) -> Result | None:
    """What train.py does, on every rank of the pool; rank 0 returns the result."""
    with _mutated(case, dist.get_rank()):
        return _distributed(case)


def _distributed(case: Case) -> Result | None:
    rank, world = dist.get_rank(), dist.get_world_size()
    device_mesh = mesh.device_mesh(shard=world, device="cpu")
    model: Any = build(case)
    prepare(model, spec(case))
    model.double()
    parts = partition.Partition(model, modules(case))
    recompute.add_recompute(model, parts)
    sharding.shard(model, device_mesh, parts, strategy=case.strategy, reduce=torch.float64)
    optimizer = optim.adamw(parts, betas=(0.9, 0.95), eps=1e-8)
    schedule = optim.constant(optimizer)
    micro = BATCH // world // case.accumulation
    result = Result([], [], {})
    for update in range(UPDATES):
        parts.enter_phase(update, optimizer, schedule)
        batches = [
            samples(case, update, [(step * world + rank) * micro + i for i in range(micro)])
            for step in range(case.accumulation)
        ]
        valid = mesh.global_sum(sum(model.valid_count(batch) for batch in batches), device_mesh)
        losses = []
        for batch in batches:
            loss = (model(batch) / valid).sum()
            loss.backward()
            losses.append(loss.detach())
        gradients = {name: _whole(p.grad) for name, p in parts.trainable() if p.grad is not None}
        result.gradients.append(gradients)
        optim.clip_gradients(parts, CLIP)
        result.losses.append(float(mesh.global_sum(sum(losses), device_mesh)))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    result.weights = {name: _whole(p) for name, p in parts.named_parameters()}
    return result if rank == 0 else None


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def differences(case: Case, ours: Result, plain: Result) -> dict[str, float]:
    """The largest relative norm of the difference of gradients per module and update, of losses, and of the weights' movement."""
    owner = partition.Partition(build(case), modules(case))
    worst: dict[str, float] = {"loss": 0.0}
    for update in range(UPDATES):
        a, b = ours.gradients[update], plain.gradients[update]
        assert a.keys() == b.keys(), sorted(a.keys() ^ b.keys())[:5]
        for module in owner.modules:
            names = [name for name in a if owner.owner(name) == module]
            if names:
                top = sum(float((a[n].double() - b[n].double()).square().sum()) for n in names) ** 0.5
                norm = sum(float(b[n].double().square().sum()) for n in names) ** 0.5
                key = f"gradient of {module}"
                worst[key] = max(worst.get(key, 0.0), top / norm)
        loss = abs(ours.losses[update] - plain.losses[update]) / abs(plain.losses[update])
        worst["loss"] = max(worst["loss"], loss)
    start = dict(build(case).named_parameters())
    moved = sum(float((plain.weights[n] - start[n].detach()).double().square().sum()) for n in start) ** 0.5
    off = sum(float((ours.weights[n] - plain.weights[n]).double().square().sum()) for n in start) ** 0.5
    return {**worst, "weights": off / moved * 1e-2}  # Adam divides by gradients that are nearly zero
