"""The device mesh of the run, and sums over it."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from .errors import UserError


def device_type() -> str:
    """`'cuda'` where this process has a GPU, else `'cpu'`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_mesh(*, shard: int, device: str | None = None) -> DeviceMesh:
    """The one-dimensional mesh `('shard',)` over all processes.

    Args:
        shard: number of processes over which parameters, gradients and optimizer states are split.
        device: `'cpu'` or `'cuda'`; by default what this process has.

    Raises:
        UserError: the process group has another size, since the plan's batch arithmetic would then be wrong.
    """
    world = dist.get_world_size()
    if world != shard:
        raise UserError(
            f"The plan was built for {shard} processes, but {world} were started. "
            f"Start {shard} processes (launch/local.sh does), or change `hardware` in pipeline.ts and build again."
        )
    return init_device_mesh(device or device_type(), (shard,), mesh_dim_names=("shard",))


def mesh_device(mesh: DeviceMesh) -> torch.device:
    """The device on which this process's tensors live."""
    return torch.device("cuda", torch.cuda.current_device()) if mesh.device_type == "cuda" else torch.device("cpu")


def global_sum(value: torch.Tensor | float, mesh: DeviceMesh) -> torch.Tensor:
    """The sum of `value` over all processes of the mesh; `value` itself is not changed. Every rank must call it.

    Args:
        value: a tensor of the same shape and dtype on every rank, or a Python number (summed as fp64).
        mesh: the mesh of the run.
    """
    device = mesh_device(mesh)
    total = (
        value.detach().to(device, copy=True)
        if isinstance(value, torch.Tensor)
        else torch.tensor(value, dtype=torch.float64, device=device)
    )
    dist.all_reduce(total, group=mesh.get_group())
    return total
