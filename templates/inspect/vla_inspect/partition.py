"""Divides a policy's parameters into modules that can have a learning rate, a dtype and a freeze schedule of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn
from vla_runtime.policies.units import Blocks, Trace

_REST, _FROZEN = "heads", "frozen"


@dataclass(frozen=True)
class Proposed:
    """One module.

    Attributes:
        name: in camel case, from the name of its root.
        patterns: fnmatch patterns over names of parameters.
        blocks: patterns of the repeated blocks that are wholly called through `forward`.
        dead: patterns of parameters that get no gradient.
        names: the parameters.
    """

    name: str
    patterns: tuple[str, ...]
    blocks: tuple[str, ...]
    dead: tuple[str, ...]
    names: frozenset[str]


def propose(policy: nn.Module, seen: Trace | None) -> list[Proposed]:
    """A partition: each stack of blocks is a module; what lies between them is the module `heads`, or `frozen` where LeRobot freezes it.

    Args:
        policy: the policy.
        seen: what one training step showed; None: nothing is known, so that no block is proposed.
    """
    groups = _outermost(policy, seen)
    roots = _split(policy, policy, "", groups)
    covered = tuple(f"{root}." for root in roots)
    left = [(name, parameter) for name, parameter in policy.named_parameters() if not name.startswith(covered)]
    parts = [(name, (f"{root}.*",)) for name, root in zip(_names(roots), roots, strict=True)]
    for kind, trains in ((_REST, True), (_FROZEN, False)):
        names = [name for name, parameter in left if parameter.requires_grad == trains]
        if names:
            parts.append((_free(kind, [name for name, _ in parts]), tuple(_patterns(policy, names))))
    dead = set() if seen is None else set(seen.dead)
    return [_proposed(policy, name, patterns, groups, dead) for name, patterns in parts]


def _outermost(policy: nn.Module, seen: Trace | None) -> list[Blocks]:
    """Groups of blocks that are all called and have parts of their own, without those inside of other groups' blocks."""
    called = [
        group
        for group in (() if seen is None else seen.blocks)
        if group.called == group.names
        and len(group.names) > 1
        and next(policy.get_submodule(group.names[0]).children(), None) is not None
    ]
    inside = [tuple(f"{name}." for name in group.names) for group in called]
    return [
        group
        for index, group in enumerate(called)
        if not any(group.names[0].startswith(other) for number, other in enumerate(inside) if number != index)
    ]


def _split(policy: nn.Module, module: nn.Module, prefix: str, groups: Sequence[Blocks]) -> list[str]:
    """Roots of modules below `module`: where it holds several stacks of blocks, or trains in part, its children are looked at."""
    own = [group for group in groups if group.names[0].startswith(prefix)]
    if not own:
        return []
    root = prefix.removesuffix(".")
    one = len({(group.kind, _home(policy, group)) for group in own}) == 1
    alike = len({parameter.requires_grad for parameter in module.parameters()}) == 1
    is_stack = any(group.pattern == f"{prefix}*" for group in own)
    if prefix and (is_stack or (one and alike)):
        return [root]
    children = [(name, child) for name, child in module.named_children() if next(child.parameters(), None) is not None]
    return [below for name, child in children for below in _split(policy, child, f"{prefix}{name}.", own)]


def _home(policy: nn.Module, group: Blocks) -> str:
    """The nearest module around a group that is no mere list: stages of one ResNet are in one home, two encoders are not."""
    name = group.pattern
    while "." in name:
        name = name.rpartition(".")[0]
        if not isinstance(policy.get_submodule(name), nn.ModuleList | nn.ModuleDict | nn.Sequential):
            return name
    return ""


def _patterns(policy: nn.Module, names: Sequence[str]) -> Iterator[str]:
    """The shortest patterns that match these parameters and none of the others: whole submodules where they can be."""
    wanted = set(names)
    others = [name for name, _ in policy.named_parameters() if name not in wanted]

    def walk(module: nn.Module, prefix: str) -> Iterator[str]:
        for name, _ in module.named_parameters(recurse=False):
            if f"{prefix}{name}" in wanted:
                yield f"{prefix}{name}"
        for name, child in module.named_children():
            below = f"{prefix}{name}."
            if not any(each.startswith(below) for each in wanted):
                continue
            if any(each.startswith(below) for each in others):
                yield from walk(child, below)
            else:
                yield f"{below}*"

    yield from walk(policy, "")


def _proposed(
    policy: nn.Module, name: str, patterns: tuple[str, ...], groups: Sequence[Blocks], dead: set[str]
) -> Proposed:
    names = frozenset(
        each for each, _ in policy.named_parameters() if any(fnmatchcase(each, pattern) for pattern in patterns)
    )
    blocks = tuple(
        group.pattern for group in groups if any(fnmatchcase(f"{group.names[0]}.", pattern) for pattern in patterns)
    )
    buried = [each for each in dead if each in names]
    return Proposed(name, patterns, blocks, tuple(_patterns(policy, buried)) if buried else (), names)


def _names(roots: Sequence[str]) -> list[str]:
    """The last part of each root that says something, in camel case; longer where two would be called the same."""
    told: list[str] = []
    for root in roots:
        parts = [part for part in root.split(".") if not part.isdigit() and part not in ("model", "module", "layers")]
        depth = 1
        name = _camel(parts[-1:] or [root])
        while name in told and depth < len(parts):
            depth += 1
            name = _camel(parts[-depth:])
        told.append(_free(name, told))
    return told


def _camel(parts: Sequence[str]) -> str:
    words = [word for part in parts for word in part.split("_") if word]
    return "".join([words[0].lower(), *(word.capitalize() for word in words[1:])])


def _free(name: str, taken: Sequence[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    return free
