"""Splits a model over the processes of a mesh: FSDP2 units per block, or DDP. Gradients are summed over processes, never averaged."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from .errors import UserError
from .partition import Module, Partition, plain_name, saved_name

Strategy = Literal["full", "gradOp", "ddp"]


def shard(
    model: nn.Module,
    mesh: DeviceMesh,
    partition: Partition,
    *,
    strategy: Strategy = "full",
    reduce: torch.dtype = torch.float32,
    forward_methods: Sequence[str] = ("predict",),
) -> None:
    """Distributes `model` in place. Call it on every rank, before the weights are loaded and the optimizer is built.

    `full` and `gradOp` make one FSDP2 unit of each block, of what is left of each module's roots, and of the rest. `full` frees gathered parameters after the forward (ZeRO-3, FULL_SHARD), `gradOp` keeps them until the backward
    (ZeRO-2, SHARD_GRAD_OP). Parameters are stored in the module's storage dtype, gathered in its compute dtype, and their gradients
    summed in `reduce`. `ddp` keeps everything on every process; a module whose compute dtype is below its masters' runs under
    autocast.

    The roots of each module get an attribute `compute_dtype`; the model casts activations to it at their borders, and FSDP2 casts
    no inputs (it would round time steps and masks too). A model that leaves this to us says so by its attribute `cast_at_borders`:
    floating inputs of each root are cast then, except of roots with `casts_own_inputs`.

    Args:
        model: built, possibly on the meta device; adapters and recompute wrappers in place.
        mesh: one-dimensional.
        partition: of this model.
        strategy: see above.
        reduce: dtype in which gradients are summed over processes; at least the masters' precision under an fp64 module.
        forward_methods: methods of the model beside `forward` that touch parameters.

    Raises:
        UserError: tied parameters in different units, a freeze phase under `ddp`, a unit that mixes modules.
    """
    _store(partition)
    for module in partition.modules.values():
        for root in partition.roots(module.name):
            child = model.get_submodule(root)
            child.compute_dtype = module.compute_dtype  # pyright: ignore[reportArgumentType]
            if getattr(model, "cast_at_borders", False) and not getattr(child, "casts_own_inputs", False):
                child.register_forward_pre_hook(_cast_inputs, with_kwargs=True)
    if strategy == "ddp":
        _replicate(model, mesh, partition)
    else:
        _fully_shard(model, mesh, partition, strategy == "full", reduce)
        for method in forward_methods:
            if hasattr(model, method):
                register_fsdp_forward_method(model, method)
        check_shards(partition, mesh)


def _cast_inputs(module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def cast_one(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(module.compute_dtype) if floating else value

    return tree_map(cast_one, (inputs, named))


def _store(partition: Partition) -> None:
    """Brings every parameter to the dtype in which it is stored: masters for what trains, the declared storage for the rest."""
    for name, parameter in partition.named_parameters():
        module = partition.modules[partition.owner(name)]
        trains = any(partition.pattern(name))
        if trains and saved_name(name) is not None and module.storage_dtype != module.master_dtype:
            raise UserError(
                f"Module {module.name} trains, but is stored in {module.storage}: its optimizer needs masters in "
                f"{'fp64' if module.dtype == 'fp64' else 'fp32'}."
            )
        stored = module.master_dtype if saved_name(name) is None else module.storage_dtype
        if parameter.dtype != stored and parameter.is_floating_point():
            parameter.data = parameter.data.to(stored)


# FSDP2


def _fully_shard(model: nn.Module, mesh: DeviceMesh, partition: Partition, reshard: bool, reduce: torch.dtype) -> None:
    tied = _tied_names(model)
    blocks = {block for module in partition.modules for stack in partition.blocks(module) for block in stack}
    claimed: set[str] = set()

    def unit(name: str, module: Module, reshard_after_forward: bool) -> None:
        child = model.get_submodule(name)
        held = {f"{name}.{n}" for n in _parameter_names(child)} - claimed
        # A tied parameter with a name outside too goes to the root unit, and with it what else the submodule holds.
        if not held or (name not in blocks and any(held & set(group) and not held >= set(group) for group in tied)):
            return
        claimed.update(held)
        policy = _policy(module.compute_dtype, reduce)
        fully_shard(child, mesh=mesh, reshard_after_forward=reshard_after_forward, mp_policy=policy)
        partition.units[child] = frozenset(held)

    for module in partition.modules.values():
        for stack in partition.blocks(module.name):
            for block in stack:
                unit(block, module, reshard)
        for root in partition.roots(module.name):
            unit(root, module, reshard)
    rest = [name for name in _parameter_names(model) if name not in claimed]
    owners = {partition.owner(name) for name in rest}
    dtypes = [partition.modules[owner].compute_dtype for owner in owners]
    # Where inputs are cast at every border, what several modules leave to the root may be gathered in the widest of their dtypes.
    if len(set(dtypes)) > 1 and not getattr(model, "cast_at_borders", False):
        raise UserError(
            f"{', '.join(rest)} lie outside of all submodules of one module and belong to {', '.join(sorted(owners))}, which compute "
            "in different dtypes: give each module submodules of its own, or one dtype."
        )
    dtype = functools.reduce(torch.promote_types, dtypes) if dtypes else None
    policy = _policy(dtype, reduce) if dtype is not None else MixedPrecisionPolicy(cast_forward_inputs=False)
    # The root is needed again as soon as the backward begins, so that freeing it in between would gather it twice.
    fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=policy)
    partition.units[model] = frozenset(rest)
    _check_tied(tied, partition)
    for fsdp in fsdp_units(model):
        fsdp.set_gradient_divide_factor(1.0)
        fsdp.set_force_sum_reduction_for_comms(True)


def _policy(compute: torch.dtype, reduce: torch.dtype) -> MixedPrecisionPolicy:
    reduce = torch.float64 if compute == torch.float64 else reduce
    return MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce, cast_forward_inputs=False)


def fsdp_units(model: nn.Module) -> Iterator[FSDPModule]:
    """The FSDP2 units of a model, the root first."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            yield module


def _parameter_names(module: nn.Module) -> list[str]:
    return [plain_name(name) for name, _ in module.named_parameters(remove_duplicate=False)]


def _tied_names(model: nn.Module) -> list[list[str]]:
    """Groups of names under which one and the same parameter stands."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(plain_name(name))
    return [group for group in names.values() if len(group) > 1]


def _check_tied(tied: list[list[str]], partition: Partition) -> None:
    for group in tied:
        holding = [unit for unit, names in partition.units.items() if names & set(group)]
        if len(holding) > 1:
            raise UserError(
                f"{' and '.join(group)} are one tied parameter but lie in different FSDP2 units, which torch would untie in "
                "silence. Take the one inside a block out of `blocks`."
            )


def check_shards(partition: Partition, mesh: DeviceMesh) -> None:
    """Asserts that every parameter is split over all processes, so that each holds 1/world of the bytes (up to the last row).

    Raises:
        RuntimeError: naming a parameter that is whole, or whose part is not the expected one.
    """
    world, rank = mesh.size(), mesh.get_local_rank()
    for name, parameter in partition.named_parameters():
        if not isinstance(parameter, DTensor):
            raise RuntimeError(f"{name} is not sharded: it was added after `shard`, or no unit holds it.")
        rows = parameter.shape[0]
        size = -(-rows // world)
        expected = max(0, min(rows, (rank + 1) * size) - rank * size)
        held = parameter.to_local().shape[0]
        if held != expected:
            raise RuntimeError(f"{name}: rank {rank} holds {held} of {rows} rows, expected {expected}.")


# DDP


class _Sum(torch.autograd.Function):
    """The identity; its gradient is multiplied by the number of processes, which turns DDP's average into the sum."""

    @staticmethod
    def forward(ctx: Any, losses: torch.Tensor, world: int) -> torch.Tensor:
        """Returns `losses`."""
        ctx.world = world
        return losses.view_as(losses)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Returns the gradient times the number of processes."""
        return gradients[0] * ctx.world, None


class _Whole(nn.Module):
    """Holds the model for DDP, which wants a module of its own whose forward it may hook."""

    def __init__(self, model: nn.Module, forward: Callable[..., torch.Tensor], world: int) -> None:
        super().__init__()
        self.model = model
        self.plain_forward = forward
        self.world = world

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The model's losses."""
        return cast(torch.Tensor, _Sum.apply(self.plain_forward(*args, **kwargs), self.world))


def _replicate(model: nn.Module, mesh: DeviceMesh, partition: Partition) -> None:
    for module in partition.modules.values():
        flags = {partition.pattern(name) for name, _ in partition.named_parameters(module.name)}
        if any(len(set(pattern)) > 1 for pattern in flags):
            raise UserError(
                f"Module {module.name} has freeze phases that change what trains, and DDP does not notice: parameters that unfreeze "
                "after it was built are never synchronised. Use fsdp2()."
            )
        if torch.promote_types(module.storage_dtype, module.compute_dtype) != module.storage_dtype:
            raise UserError(
                f"Module {module.name} is stored in {module.storage} but computes in {module.dtype}; ddp cannot. Use fsdp2()."
            )
        if module.compute_dtype != module.storage_dtype:
            for root in partition.roots(module.name):
                child = model.get_submodule(root)
                child.forward = torch.autocast(mesh.device_type, dtype=module.compute_dtype)(child.forward)

    plain = model.forward
    built: list[DistributedDataParallel] = []

    def forward(*args: Any, **kwargs: Any) -> torch.Tensor:
        if not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        if not built:  # only now: DDP cannot be built around parameters that are still on the meta device
            whole = _Whole(model, plain, mesh.size())
            built.append(DistributedDataParallel(whole, process_group=mesh.get_group(), broadcast_buffers=False))
        return cast(torch.Tensor, built[0](*args, **kwargs))

    model.forward = forward
