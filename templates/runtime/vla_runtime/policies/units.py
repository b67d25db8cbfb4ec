"""Which repeated blocks of a policy are really called, and which parameters never get a gradient: from one run without values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from ..errors import UserError
from .batch import PolicyBatch


@dataclass(frozen=True)
class Blocks:
    """Repeated submodules of one class, side by side.

    Attributes:
        pattern: over names of submodules, as `Module.blocks` takes it.
        kind: name of their class.
        names: all of them.
        called: those whose forward ran. FSDP2 gathers parameters, and recompute works, only around a call: what is not called must
            not be wrapped.
        parameters: number of elements in all of them.
    """

    pattern: str
    kind: str
    names: tuple[str, ...]
    called: tuple[str, ...]
    parameters: int


@dataclass(frozen=True)
class Trace:
    """What one training step showed.

    Attributes:
        blocks: of the policy, outer ones before inner ones.
        uncalled: modules with parameters whose forward never ran, lists and what lies inside of called blocks aside; their parameters
            are read from outside, or not at all.
        entered: modules that are called, but into which something from outside reaches too and calls a part of them (the embedding of
            a language model, for most): a unit around the whole would not be gathered then.
        dead: parameters that train but get no gradient.
    """

    blocks: tuple[Blocks, ...]
    uncalled: tuple[str, ...]
    entered: tuple[str, ...]
    dead: tuple[str, ...]


def called_blocks(policy: Any, batch: PolicyBatch) -> list[Blocks]:
    """The repeated blocks that are wholly called through `forward`: the wrap units to propose. See `trace`."""
    return [blocks for blocks in trace(policy, batch).blocks if blocks.called == blocks.names]


def pass_over(policy: nn.Module, names: Sequence[str]) -> None:
    """Keeps these modules from becoming FSDP2 units: `Partition.roots` passes over them, and their own parameters go to the root."""
    for name in names:
        container: Any = policy.get_submodule(name)
        container.is_container = True


def trace(policy: Any, batch: PolicyBatch) -> Trace:
    """Runs a training step of a policy on tensors that have shapes but no values, so that it costs neither memory nor time.

    A policy that decides by values what to compute is run for real, where it has values.

    Args:
        policy: after `prepare`, on the meta device or not, not sharded.
        batch: of real tensors, for example `example_batch(spec)`.

    Raises:
        UserError: neither works.
    """
    watch = _Watch(policy)
    try:
        try:
            without = _without_gradient(policy, batch)
        except Exception as problem:  # whatever a policy's code does with a tensor that has no value
            if any(parameter.is_meta for parameter in policy.parameters()):
                text = str(problem).strip()
                raise UserError(
                    f"The policy cannot be run without values ({type(problem).__name__}: "
                    f"{text.splitlines()[0] if text else 'no message'}), so that its wrap units cannot be found. Use ddp()."
                ) from problem
            watch.forget()
            without = _without_gradient_for_real(policy, batch)
    finally:
        watch.end()
    called, entered = watch.called, watch.entered & watch.called
    blocks = tuple(_groups(policy, called - entered))
    covered = tuple(f"{name}." for each in blocks for name in each.called)
    uncalled = [
        name
        for name, module in policy.named_modules()
        if module not in called
        and not name.startswith(covered)
        and not isinstance(module, nn.ModuleList | nn.ModuleDict)
        and next(module.parameters(), None) is not None
        and name
    ]
    names = tuple(name for name, module in policy.named_modules() if module in entered)
    return Trace(blocks, tuple(uncalled), names, tuple(without))


class _Watch:
    """Notes which submodules are called, and which are called while a module around them is not.

    Args:
        policy: whose submodules are watched; it is around everything and counts as called.
    """

    def __init__(self, policy: nn.Module) -> None:
        self.called: set[nn.Module] = set()
        self.entered: set[nn.Module] = set()
        self._active: list[nn.Module] = []
        self._around: dict[nn.Module, set[nn.Module]] = {}
        for outer in policy.modules():
            for inner in outer.modules():
                if inner is not outer and outer is not policy and next(inner.parameters(), None) is not None:
                    self._around.setdefault(inner, set()).add(outer)
        self._handles: list[Any] = []
        for module in policy.modules():
            self._handles.append(module.register_forward_pre_hook(self._begins))
            self._handles.append(module.register_forward_hook(self._ends, always_call=True))

    def forget(self) -> None:
        """Begins anew."""
        for noted in (self.called, self.entered, self._active):
            noted.clear()

    def end(self) -> None:
        """Stops watching."""
        for handle in self._handles:
            handle.remove()

    def _begins(self, module: nn.Module, _inputs: Any) -> None:
        self.called.add(module)
        self.entered |= self._around.get(module, set()).difference(self._active)
        self._active.append(module)

    def _ends(self, module: nn.Module, _inputs: Any, _output: Any) -> None:
        while self._active and self._active.pop() is not module:
            pass


def _without_gradient(policy: Any, batch: PolicyBatch) -> list[str]:
    """Parameters that train but get no gradient, from a step on tensors without values."""
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, _InventedNumbers():
        state = _without_values(policy)
        losses: Tensor = torch.func.functional_call(policy, state, (_fake_batch(fake, batch),))
    with fake:
        losses.sum().backward()
    return [
        name for name, parameter in policy.named_parameters() if parameter.requires_grad and state[name].grad is None
    ]


def _without_gradient_for_real(policy: Any, batch: PolicyBatch) -> list[str]:
    """The same from a step with values; the policy is left as it was."""
    buffers = [(buffer, buffer.clone()) for buffer in policy.buffers()]
    device = next(policy.parameters()).device
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            policy(batch.to(device)).sum().backward()
        return [
            name for name, parameter in policy.named_parameters() if parameter.requires_grad and parameter.grad is None
        ]
    finally:
        policy.zero_grad(set_to_none=True)
        for buffer, before in buffers:
            buffer.copy_(before)


def _groups(policy: nn.Module, called: set[nn.Module]) -> Iterator[Blocks]:
    for name, container in policy.named_modules():
        if not isinstance(container, nn.ModuleList | nn.Sequential):
            continue
        children = [(key, child) for key, child in container.named_children() if child is not None]
        kinds = {type(child) for _, child in children}
        sizes = [sum(parameter.numel() for parameter in child.parameters()) for _, child in children]
        alike = len(kinds) == 1 and all(sizes) and not kinds & {nn.ModuleList, nn.ModuleDict}
        if not alike or (isinstance(container, nn.Sequential) and len(children) < 2):
            continue
        yield Blocks(
            pattern=f"{name}.*",
            kind=kinds.pop().__name__,
            names=tuple(f"{name}.{key}" for key, _ in children),
            called=tuple(f"{name}.{key}" for key, child in children if child in called),
            parameters=sum(sizes),
        )


def _without_values(policy: nn.Module) -> dict[str, Tensor]:
    """A fake tensor on the CPU for each parameter and buffer; tied ones share it."""
    made: dict[Tensor, Tensor] = {}
    state: dict[str, Tensor] = {}
    tensors = [*policy.named_parameters(remove_duplicate=False), *policy.named_buffers(remove_duplicate=False)]
    for name, tensor in tensors:
        if tensor not in made:
            made[tensor] = torch.empty(
                tensor.shape, dtype=tensor.dtype, device="cpu", requires_grad=tensor.requires_grad
            )
        state[name] = made[tensor]
    return state


def _fake_batch(fake: FakeTensorMode, batch: PolicyBatch) -> PolicyBatch:
    def converted(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(converted(item) for item in value)
        if isinstance(value, dict):
            return {name: converted(item) for name, item in value.items()}
        return fake.from_tensor(value.cpu()) if isinstance(value, Tensor) else value

    return replace(batch, tensors=converted(batch.tensors), valid=converted(batch.valid), noise=converted(batch.noise))


class _InventedNumbers(TorchFunctionMode):
    """Within: numbers read out of tensors, which LeRobot's policies do for their logs, are zeros."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Zeros for `item` and `tolist`; everything else is called as it is."""
        if func in (torch.Tensor.item, torch.Tensor.__float__, torch.Tensor.__int__):
            return 0 if func is torch.Tensor.__int__ else 0.0 if args[0].is_floating_point() else 0
        if func is torch.Tensor.tolist:
            return _zeros(args[0].shape, 0.0 if args[0].is_floating_point() else 0)
        return func(*args, **dict(kwargs or {}))


def _zeros(shape: Sequence[int], zero: float) -> Any:
    return zero if not shape else [_zeros(shape[1:], zero) for _ in range(shape[0])]
