"""A policy that the runtime knows nothing of, under modules that a user wrote by hand, on every rank of a pool and by plain PyTorch."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from vla_runtime import mesh, partition, sharding
from vla_runtime.policies import training
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.spec import PolicySpec, build_policy

PLUGINS = Path(__file__).parent / "plugins"
SPEC = PolicySpec(
    type="padded",
    plugin="lerobot_policy_padded",
    cameras=("front",),
    image_sizes={"front": (24, 24)},
    state_dim=2,
    action_dim=3,
)
BATCH = 4


def build() -> Any:
    """The same policy on every call."""
    torch.manual_seed(11)
    return build_policy(SPEC)


def batch(positions: list[int]) -> PolicyBatch:
    """Samples as the plugin's preprocessor hands them out."""
    draws = [torch.Generator().manual_seed(100 + position) for position in positions]
    shapes = {"observation.images.front": (3, 24, 24), "observation.state": (2,), "action": (4, 8)}
    tensors: dict[str, Any] = {
        name: torch.stack([torch.randn(shape, generator=draw) for draw in draws]) for name, shape in shapes.items()
    }
    return PolicyBatch(tensors, torch.ones(len(positions), 4, dtype=torch.bool), positions, update=0, seed=5)


def modules(encoder: partition.DType, rest: partition.DType) -> list[partition.Module]:
    """Two modules, as anybody would write them who has not looked at what calls what."""
    return [
        partition.Module("encoder", ["encoder.*"], blocks=["encoder.layers.*"], lr=1e-3, dtype=encoder),
        partition.Module("rest", ["state.*", "head.*"], lr=1e-3, dtype=rest),
    ]


def reference() -> dict[str, Tensor]:
    """Gradients by the plugin's own forward over the whole batch."""
    policy = build()
    policy(batch(list(range(BATCH))).tensors)[0].backward()
    return {name: parameter.grad for name, parameter in policy.named_parameters()}


def distributed(
    encoder: partition.DType, rest: partition.DType, strategy: sharding.Strategy, unmarked: bool = False
) -> tuple[dict[str, Tensor], list[str]]:
    """What train.py does, for one update. `unmarked` is a mutant: nothing is passed over for its children.

    Returns:
        Whole gradients, and the names of the FSDP2 units.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    device_mesh = mesh.device_mesh(shard=world, device="cpu")
    model = build()
    with patch.object(training, "pass_over", lambda *_: None) if unmarked else patch.dict({}):
        training.prepare(model, SPEC)
    parts = partition.Partition(model, modules(encoder, rest))
    sharding.shard(model, device_mesh, parts, strategy=strategy, reduce=torch.float32)
    share = BATCH // world
    mine = batch([rank * share + i for i in range(share)])
    (model(mine) / mesh.global_sum(model.valid_count(mine), device_mesh)).sum().backward()
    gradients = {
        name: parameter.grad.full_tensor() if isinstance(parameter.grad, DTensor) else parameter.grad
        for name, parameter in parts.named_parameters()
        if parameter.grad is not None
    }
    names = [name for name, module in model.named_modules() if module in parts.units]
    return {name: gradient.float().clone() for name, gradient in gradients.items()}, names
