"""Divides a policy's parameters into modules that can have a learning rate, a dtype and a freeze schedule of their own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from torch import nn
from vla_runtime.policies.units import Blocks, Trace

_REST, _FROZEN = "heads", "frozen"
_LARGE = 0.05
"""Share of the parameters from which on a submodule is a module of its own."""


@dataclass(frozen=True)
class Proposed:
    """One module.

    Attributes:
        name: in camel case, from the name of its root.
        patterns: fnmatch patterns over names of parameters.
        blocks: patterns of the repeated blocks that are wholly called through `forward`.
        dead: patterns of parameters that get no gradient.
        names: the parameters.
        outside: submodules of it that are called from outside of the module around them.
    """

    name: str
    patterns: tuple[str, ...]
    blocks: tuple[str, ...]
    dead: tuple[str, ...]
    names: frozenset[str]
    outside: tuple[str, ...] = ()


def propose(policy: nn.Module, seen: Trace | None, outside: Callable[[str], list[str]]) -> list[Proposed]:
    """A partition: each stack of blocks is a module; what lies between them is the module `heads`, or `frozen` where LeRobot freezes it.

    Args:
        policy: the policy.
        seen: what one training step showed; None: nothing is known, so that no block is proposed.
        outside: which modules below a root are called while the root is not. They belong to another module than the rest of the root,
            so that each becomes a unit of its own: a large one is a module, small ones go to `heads`.
    """
    groups = _outermost(policy, seen)
    roots = _split(policy, policy, "", groups) or _large_children(policy)
    covered = tuple(f"{root}." for root in roots)
    found = (
        [] if seen is None else [name for root in roots for name in outside(root) if not _inside_blocks(name, groups)]
    )
    own = [name for name in found if _share(policy, name) >= _LARGE]
    apart = tuple(f"{name}." for name in found if name not in own)
    left = [
        (name, parameter)
        for name, parameter in policy.named_parameters()
        if not name.startswith(covered) or name.startswith(apart)
    ]
    parts = [
        (name, _without(policy, root, [each for each in found if each != root]))
        for name, root in zip(_names([*roots, *own]), [*roots, *own], strict=True)
    ]
    for kind, trains in ((_REST, True), (_FROZEN, False)):
        names = [name for name, parameter in left if parameter.requires_grad == trains]
        if names:
            parts.append((_free(kind, [name for name, _ in parts]), tuple(_patterns(policy, names))))
    dead = set() if seen is None else set(seen.dead)
    proposed = [_proposed(policy, name, patterns, groups, dead) for name, patterns in parts]
    return [replace(each, outside=tuple(name for name in found if f"{name}.*" in each.patterns)) for each in proposed]


def _inside_blocks(name: str, groups: Sequence[Blocks]) -> bool:
    return any(f"{name}.".startswith(f"{block}.") for group in groups for block in group.names)


def _without(policy: nn.Module, root: str, others: Sequence[str]) -> tuple[str, ...]:
    """Patterns of what lies below `root` and below none of the others."""
    left_out = tuple(f"{other}." for other in others if other.startswith(f"{root}."))
    if not left_out:
        return (f"{root}.*",)
    own = [name for name, _ in policy.named_parameters() if name.startswith(f"{root}.")]
    return tuple(_patterns(policy, [name for name in own if not name.startswith(left_out)]))


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


def _large_children(policy: nn.Module) -> list[str]:
    """Where no blocks are known: submodules with a good share of the parameters, at the first place where there are several."""
    module, prefix = policy, ""
    while True:
        children = [
            (name, child) for name, child in module.named_children() if next(child.parameters(), None) is not None
        ]
        if len(children) != 1:
            break
        [(name, module)] = children
        prefix = f"{prefix}{name}."
    return [
        f"{prefix}{name}"
        for name, child in children
        if _share(policy, f"{prefix}{name}") >= _LARGE
        and len({parameter.requires_grad for parameter in child.parameters()}) == 1
    ]


def _share(policy: nn.Module, name: str) -> float:
    own = sum(parameter.numel() for parameter in policy.get_submodule(name).parameters())
    return own / sum(parameter.numel() for parameter in policy.parameters())


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
