"""AdamW over the modules, learning-rate schedules, and clipping by the global norm."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from .errors import UserError
from .partition import Partition


def decays(name: str, parameter: nn.Parameter, *, bias_and_norm: bool = False) -> bool:
    """Whether weight decay acts on a parameter: biases and norms (everything with at most one dimension) are left out unless asked."""
    return bias_and_norm or (parameter.ndim > 1 and not name.endswith(".bias"))


@dataclass(frozen=True)
class Group:
    """What one of the optimizer's parameter groups holds.

    Attributes:
        module: the module of all its parameters.
        lr: declared peak learning rate.
        weight_decay: declared decay; 0 for biases and norms.
        pattern: for each freeze phase of the module, whether these parameters train in it.
        names: the parameters, in the group's order.
    """

    module: str
    lr: float
    weight_decay: float
    pattern: tuple[bool, ...]
    names: tuple[str, ...]


class ModuleAdamW(torch.optim.AdamW):
    """torch's AdamW that knows for each of its parameter groups the module, the declared values and the freeze phases."""

    groups: list[Group]
    declared: dict[str, Any]


def adamw(
    partition: Partition,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay_bias_and_norm: bool = False,
    fused: bool = True,
) -> ModuleAdamW:
    """AdamW over everything that ever trains. Build it after `shard` and after the weights are loaded.

    There is one parameter group for each module, decay or none, and set of freeze phases in which the parameters train, so that
    what unfreezes later can be warmed up by itself. Parameters that are frozen have no gradient, hence no state.

    Args:
        partition: the modules, with their LR and weight decay.
        betas: AdamW's.
        eps: AdamW's.
        decay_bias_and_norm: let the weight decay act on biases and norms too.
        fused: one kernel for all parameters (CPU and CUDA have it).
    """
    members: dict[tuple[str, bool, tuple[bool, ...]], list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in partition.named_parameters():
        pattern = partition.pattern(name)
        if any(pattern):
            key = (partition.owner(name), decays(name, parameter, bias_and_norm=decay_bias_and_norm), pattern)
            members.setdefault(key, []).append((name, parameter))
    groups: list[Group] = []
    parameter_groups: list[dict[str, Any]] = []
    for (module_name, decay, pattern), held in members.items():
        module = partition.modules[module_name]
        if module.lr is None:
            raise UserError(f"Module {module_name} trains but has no learning rate.")
        weight_decay = module.weight_decay if decay else 0.0
        groups.append(Group(module_name, module.lr, weight_decay, pattern, tuple(name for name, _ in held)))
        parameter_groups.append({"params": [p for _, p in held], "lr": module.lr, "weight_decay": weight_decay})
    optimizer = ModuleAdamW(parameter_groups, betas=betas, eps=eps, fused=fused)
    optimizer.groups = groups
    optimizer.declared = {"betas": betas, "eps": eps, "fused": fused}
    return optimizer


class Schedule:
    """The learning rate of each parameter group at each update: declared LR x curve x re-warm-up.

    `curve(update)` is the factor for update 0, 1, ... The optimizer's hyperparameters are written anew by `apply`, because loading
    an optimizer's state overwrites the declared ones.
    """

    def __init__(self, optimizer: ModuleAdamW, curve: Callable[[int], float]) -> None:
        self.optimizer = optimizer
        self.curve = curve
        self.update = 0
        self._rewarm: dict[int, tuple[int, int]] = {}  # index of the group -> first update, number of updates
        self.apply(0)

    def lr(self, index: int, update: int) -> float:
        """The LR of the optimizer's group of this index at an update."""
        start, updates = self._rewarm.get(index, (0, 0))
        ramp = (update - start + 1) / updates if update - start < updates else 1.0
        return self.optimizer.groups[index].lr * self.curve(update) * ramp

    def apply(self, update: int) -> None:
        """Writes the declared hyperparameters and the LRs of `update` into the optimizer."""
        self.update = update
        for index, (group, values) in enumerate(zip(self.optimizer.groups, self.optimizer.param_groups, strict=True)):
            values.update(self.optimizer.declared, lr=self.lr(index, update), weight_decay=group.weight_decay)

    def rewarm(self, module: str, patterns: set[tuple[bool, ...]], *, start: int, updates: int) -> None:
        """Lets the LR of the module's groups with one of these phase patterns rise linearly over `updates` updates from `start`."""
        for index, group in enumerate(self.optimizer.groups):
            if group.module == module and group.pattern in patterns:
                self._rewarm[index] = (start, updates)

    def lrs(self) -> dict[str, float]:
        """The LR of each module at the present update: the highest of what trains, 0 where nothing of it does."""
        lrs: dict[str, float] = {group.module: 0.0 for group in self.optimizer.groups}
        for group, values in zip(self.optimizer.groups, self.optimizer.param_groups, strict=True):
            if any(parameter.requires_grad for parameter in values["params"]):
                lrs[group.module] = max(lrs[group.module], float(values["lr"]))
        return lrs

    def step(self) -> None:
        """Goes to the next update, also after one that was skipped."""
        self.apply(self.update + 1)

    def state_dict(self) -> dict[str, Any]:
        """The update and the running re-warm-ups, by the name of each group's first parameter."""
        rewarm = {self.optimizer.groups[index].names[0]: list(span) for index, span in self._rewarm.items()}
        return {"update": self.update, "rewarm": rewarm}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the position; LRs, boundaries and lengths stay the declared ones."""
        rewarm = state["rewarm"]
        for index, group in enumerate(self.optimizer.groups):
            if group.names[0] in rewarm:
                start, updates = rewarm[group.names[0]]
                self._rewarm[index] = (int(start), int(updates))
        self.apply(int(state["update"]))


def _warm(update: int, warmup: int) -> float | None:
    return (update + 1) / warmup if update < warmup else None


def cosine(optimizer: ModuleAdamW, *, updates: int, warmup: int = 0, floor: float = 0.0) -> Schedule:
    """Linear warm-up to the declared LR, then half a cosine down to `floor` times it at the last update's end.

    Args:
        optimizer: what `adamw` returned.
        updates: of the whole run.
        warmup: updates until the peak; update `warmup - 1` is the first at the full LR.
        floor: share of the peak at the end.
    """

    def curve(update: int) -> float:
        ramp = _warm(update, warmup)
        if ramp is not None:
            return ramp
        progress = min(1.0, (update - warmup) / max(1, updates - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))

    return Schedule(optimizer, curve)


def constant(optimizer: ModuleAdamW, *, warmup: int = 0) -> Schedule:
    """Linear warm-up to the declared LR, which then stays."""

    def curve(update: int) -> float:
        ramp = _warm(update, warmup)
        return 1.0 if ramp is None else ramp

    return Schedule(optimizer, curve)


def linear(optimizer: ModuleAdamW, *, updates: int, warmup: int = 0, floor: float = 0.0) -> Schedule:
    """Linear warm-up to the declared LR, then a straight line down to `floor` times it."""

    def curve(update: int) -> float:
        ramp = _warm(update, warmup)
        if ramp is not None:
            return ramp
        progress = min(1.0, (update - warmup) / max(1, updates - warmup))
        return 1 - (1 - floor) * progress

    return Schedule(optimizer, curve)


def clip_gradients(partition: Partition, max_norm: float | None) -> dict[str, torch.Tensor]:
    """Scales all gradients by one factor so that their global norm is at most `max_norm`.

    Works over DTensors of any one-dimensional or larger mesh and over plain tensors together: squares are summed locally, then
    over the mesh dimensions along which a gradient is split. Every rank must call it.

    Args:
        partition: whose trainable parameters are meant.
        max_norm: None only measures.

    Returns:
        The norm of each module's gradient before clipping, 0 for a module that does not train now; scalars on the device.

    Raises:
        UserError: a parameter that trains has no gradient, so that the model never used it.
    """
    modules = list(partition.modules)
    gradients: list[torch.Tensor] = []
    squares: dict[tuple[DeviceMesh, tuple[int, ...]] | None, torch.Tensor] = {}
    precise = torch.float32
    found: list[tuple[int, tuple[DeviceMesh, tuple[int, ...]] | None, torch.Tensor]] = []
    for index, module in enumerate(modules):
        for name, parameter in partition.trainable(module):
            gradient = parameter.grad
            if gradient is None:
                raise UserError(
                    f"{name} (module {module}) trains but got no gradient: the model does not use it. "
                    "Freeze its module, or name it among the module's dead parameters."
                )
            where = None
            if isinstance(gradient, DTensor):
                split = tuple(dim for dim, placement in enumerate(gradient.placements) if placement.is_shard())
                where = (gradient.device_mesh, split)
                gradient = gradient.to_local()
            precise = torch.promote_types(precise, gradient.dtype)
            gradients.append(gradient)
            found.append((index, where, gradient))
    if not found:
        raise UserError("Nothing trains in this update.")
    device = gradients[0].device
    norms = torch._foreach_norm(gradients, 2, dtype=precise)  # pyright: ignore[reportPrivateImportUsage]
    for (index, where, _), norm in zip(found, norms, strict=True):
        total = squares.setdefault(where, torch.zeros(len(modules), dtype=precise, device=device))
        total[index] += norm**2
    for where, total in squares.items():
        if where is not None:
            mesh, split = where
            for dim in split:
                dist.all_reduce(total, group=mesh.get_group(dim))
    totals = torch.stack(list(squares.values())).sum(0)
    if max_norm is not None:
        factor = torch.clamp(max_norm / (totals.sum().sqrt() + 1e-6), max=1.0)
        torch._foreach_mul_(gradients, factor)  # pyright: ignore[reportPrivateImportUsage]
    return dict(zip(modules, totals.sqrt().unbind(), strict=True))
