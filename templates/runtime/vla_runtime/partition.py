"""Which parameters belong to which module of the declaration, and which of them train at which update."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from .errors import UserError

if TYPE_CHECKING:
    from .optim import Schedule

DType = Literal["fp64", "fp32", "bf16"]
TORCH_DTYPES: dict[str, torch.dtype] = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class AllTrain:
    """A phase in which every live parameter of the module trains.

    Attributes:
        until: the update with which the next phase begins; None for the last phase.
        rewarm: updates over which the LR of what this phase unfreezes rises linearly from zero.
    """

    until: int | None = None
    rewarm: int = 0


@dataclass(frozen=True)
class Frozen:
    """A phase in which nothing of the module trains."""

    until: int | None = None

    @property
    def rewarm(self) -> int:
        """Nothing is unfrozen here."""
        return 0


@dataclass(frozen=True)
class LastLayers:
    """A phase in which the last `count` live blocks of each stack of blocks train, and nothing else of the module."""

    count: int
    until: int | None = None
    rewarm: int = 0


Phase = AllTrain | Frozen | LastLayers


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters for a module; its base weights stay frozen.

    Attributes:
        rank: inner width of the adapters.
        alpha: the adapters' output is scaled by `alpha / rank`.
        dropout: on the adapters' input.
        targets: names of the adapted layers: the last components of a module's name (`q_proj`, `self_attn.q_proj`), or an
            fnmatch pattern over whole names where it holds `*`. None: every live linear layer of the module.
    """

    rank: int
    alpha: float
    dropout: float = 0.0
    targets: Sequence[str] | None = None


@dataclass(frozen=True)
class Module:
    """A named set of parameters with its own learning rate, precision, recompute and freeze phases.

    Attributes:
        name: as in pipeline.ts.
        parameters: fnmatch patterns over parameter names.
        lr: peak learning rate; None only where nothing of the module ever trains.
        weight_decay: for the parameters that decay (see `vla_runtime.optim.decays`).
        dtype: compute dtype.
        storage: dtype of the stored (sharded) parameters; by default fp32, fp64 under an fp64 module. Adapters and whatever
            trains are masters of at least fp32.
        blocks: patterns over names of submodules, one per stack, of the repeated blocks: wrap units, recompute units, and what
            `LastLayers` counts.
        dead: patterns of parameters that never get a gradient; they are set aside.
        recompute: whether the blocks' activations are recomputed in the backward.
        freeze: the phases in order; each but the last says `until`.
        lora: adapters.
    """

    name: str
    parameters: Sequence[str]
    lr: float | None = None
    weight_decay: float = 0.0
    dtype: DType = "fp32"
    storage: DType | None = None
    blocks: Sequence[str] = ()
    dead: Sequence[str] = ()
    recompute: Literal["none", "full"] = "none"
    freeze: Sequence[Phase] = field(default_factory=lambda: [AllTrain()])
    lora: Lora | None = None

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype in which the module computes."""
        return TORCH_DTYPES[self.dtype]

    @property
    def master_dtype(self) -> torch.dtype:
        """The dtype of what trains: fp64 under an fp64 module, else fp32."""
        return torch.float64 if self.dtype == "fp64" else torch.float32

    @property
    def storage_dtype(self) -> torch.dtype:
        """The dtype of the stored parameters."""
        return TORCH_DTYPES[self.storage] if self.storage is not None else self.master_dtype


_WRAPPER = "_checkpoint_wrapped_module."
_ADAPTER = re.compile(r"\.lora_(?:A|B|embedding_A|embedding_B|magnitude_vector)\.[^.]+(?:\.(weight|bias))?$")


def plain_name(name: str) -> str:
    """A parameter's name without the recompute wrapper's component."""
    return name.replace(_WRAPPER, "")


def saved_name(name: str) -> str | None:
    """The key under which a parameter stands in a package, which knows no adapters; None for an adapter's parameter."""
    name = plain_name(name)
    return None if _ADAPTER.search(name) else name.replace(".base_layer.", ".")


def adapted_name(name: str) -> str:
    """The saved name of the weight that an adapter's parameter changes, and any other parameter's own saved name."""
    name = plain_name(name)
    match = _ADAPTER.search(name)
    return f"{name[: match.start()]}.weight" if match else name.replace(".base_layer.", ".")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a dotted name matches one of the fnmatch patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Partition:
    """The modules of the declaration over the parameters of a model.

    Each parameter belongs to exactly one module. Parameters are spoken of by name, since sharding and loading replace the objects.

    Raises:
        UserError: a parameter in no module or in several, a pattern that matches nothing, phases that make no sense.
    """

    def __init__(self, model: nn.Module, modules: Sequence[Module]) -> None:
        self.model = model
        self.modules: dict[str, Module] = {module.name: module for module in modules}
        if len(self.modules) != len(modules):
            raise UserError(f"MODULES names a module twice: {', '.join(module.name for module in modules)}.")
        self._aliases: dict[str, str] = {}  # further names of tied parameters -> module
        self._owner = self._assign()
        self._dead = self._find_dead()
        self._blocks = {module.name: self._find_blocks(module) for module in modules}
        self._live_blocks = {module.name: self._find_live_blocks(module.name) for module in modules}
        for module in modules:
            self._check_phases(module)
        self._check_something_trains()
        self.units: dict[nn.Module, frozenset[str]] = {}  # FSDP2 unit -> names of its parameters; filled by `shard`
        self.phase: dict[str, int] = dict.fromkeys(self.modules, 0)
        self.set_flags()

    # What belongs where

    def _assign(self) -> dict[str, str]:
        owner: dict[str, str] = {}
        unused = {(module.name, pattern) for module in self.modules.values() for pattern in module.parameters}
        first_name: dict[nn.Parameter, str] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            name = plain_name(name)
            hits = [(m.name, p) for m in self.modules.values() for p in m.parameters if fnmatchcase(name, p)]
            unused.difference_update(hits)
            owners = sorted({module for module, _ in hits})
            if not owners:
                patterns = ", ".join(f"{m.name}: {list(m.parameters)}" for m in self.modules.values())
                raise UserError(
                    f"The parameter {name} belongs to no module. Patterns: {patterns}. "
                    "Add a pattern for it, so that its learning rate is said."
                )
            if len(owners) > 1:
                said = ", ".join(f"{module} ({pattern})" for module, pattern in hits)
                raise UserError(f"The parameter {name} belongs to several modules: {said}. Make the patterns disjoint.")
            tied = first_name.setdefault(parameter, name)
            if tied != name:
                if owner[tied] != owners[0]:
                    raise UserError(
                        f"{tied} (module {owner[tied]}) and {name} (module {owners[0]}) are one tied parameter. "
                        "Put both into one module."
                    )
                self._aliases[name] = owners[0]
                continue
            owner[name] = owners[0]
        if unused:
            said = ", ".join(f"{pattern} ({module})" for module, pattern in sorted(unused))
            raise UserError(f"These patterns match no parameter of the model: {said}.")
        return owner

    def _find_dead(self) -> set[str]:
        dead: set[str] = set()
        for module in self.modules.values():
            names = [name for name, owner in self._owner.items() if owner == module.name]
            for pattern in module.dead:
                hits = [name for name in names if fnmatchcase(name, pattern)]
                if not hits:
                    raise UserError(
                        f"The pattern {pattern} of module {module.name}'s dead parameters matches none of them."
                    )
                dead.update(hits)
        return dead

    def _find_blocks(self, module: Module) -> list[list[str]]:
        stacks: list[list[str]] = []
        submodules = [plain_name(f"{name}.")[:-1] for name, _ in self.model.named_modules()]
        for pattern in module.blocks:
            depth = pattern.count(".")
            stack = [name for name in submodules if name.count(".") == depth and fnmatchcase(name, pattern)]
            foreign = [
                name
                for name, owner in self._owner.items()
                if owner != module.name and any(name.startswith(f"{block}.") for block in stack)
            ]
            if not stack:
                raise UserError(
                    f"The pattern {pattern} of module {module.name}'s blocks matches no submodule of the model."
                )
            if foreign:
                raise UserError(
                    f"The blocks {pattern} of module {module.name} hold {foreign[0]}, which belongs to {self._owner[foreign[0]]}."
                )
            stacks.append(stack)
        return stacks

    def _find_live_blocks(self, module: str) -> list[list[str]]:
        live = [name for name in self.names(module) if name not in self._dead]
        return [
            [block for block in stack if any(name.startswith(f"{block}.") for name in live)]
            for stack in self._blocks[module]
        ]

    def blocks(self, module: str) -> list[list[str]]:
        """Names of the module's blocks, in order, one list per stack (tower)."""
        return [list(stack) for stack in self._blocks[module]]

    def live_blocks(self, module: str) -> list[list[str]]:
        """As `blocks`, without those whose parameters are all dead (OpenVLA's towers end in one)."""
        return [list(stack) for stack in self._live_blocks[module]]

    def roots(self, module: str) -> list[str]:
        """Names of the largest submodules that hold parameters of this module only, in the model's order.

        Submodules that are never called as such, lists and those with the attribute `is_container`, are passed over for their children.
        """
        found: list[str] = []
        for name, child in self.model.named_modules():
            name = plain_name(f"{name}.")[:-1]
            owners = {self.owner(f"{name}.{n}" if name else n) for n, _ in child.named_parameters()}
            container = isinstance(child, nn.ModuleList | nn.ModuleDict) or getattr(child, "is_container", False)
            inside = any(f"{name}.".startswith(f"{root}.") for root in found)
            if name and owners == {module} and not container and not inside:
                found.append(name)
        return found

    def owner(self, name: str) -> str:
        """The module to which a parameter belongs; adapters belong to the module of the weight that they change."""
        name = adapted_name(name)
        return self._owner[name] if name in self._owner else self._aliases[name]

    def names(self, module: str) -> list[str]:
        """Saved names of the module's parameters, dead ones included, adapters excluded."""
        return [name for name, owner in self._owner.items() if owner == module]

    def dead(self) -> list[str]:
        """Saved names of the parameters that were set aside because they never get a gradient."""
        return [name for name in self._owner if name in self._dead]

    def named_parameters(self, module: str | None = None) -> Iterator[tuple[str, nn.Parameter]]:
        """The model's present parameters (of one module), adapters included, under their names without the recompute wrapper."""
        for name, parameter in self.model.named_parameters():
            if module is None or self.owner(name) == module:
                yield plain_name(name), parameter

    def trainable(self, module: str | None = None) -> list[tuple[str, nn.Parameter]]:
        """What trains in the present phase."""
        return [(name, parameter) for name, parameter in self.named_parameters(module) if parameter.requires_grad]

    # Phases

    def _check_phases(self, module: Module) -> None:
        where = f"module {module.name}"
        if not module.freeze:
            raise UserError(f"{where} has no freeze phase; a module that always trains has [AllTrain()].")
        ends = [phase.until for phase in module.freeze[:-1]]
        if any(end is None for end in ends) or module.freeze[-1].until is not None:
            raise UserError(
                f"{where}: every freeze phase but the last says `until`, and the last does not: {list(module.freeze)}."
            )
        bounds = [0, *(end for end in ends if end is not None)]
        if any(later <= earlier for earlier, later in zip(bounds, bounds[1:], strict=False)):
            raise UserError(f"{where}: the freeze phases' `until` must rise from above 0: {list(module.freeze)}.")
        for phase in module.freeze:
            if isinstance(phase, LastLayers):
                if not module.blocks:
                    raise UserError(f"{where} has a LastLayers phase, but no blocks to count.")
                for pattern, stack in zip(module.blocks, self.live_blocks(module.name), strict=True):
                    if not 1 <= phase.count <= len(stack):
                        raise UserError(
                            f"{where}: LastLayers({phase.count}), but {pattern} has {len(stack)} live blocks."
                        )
        if module.lr is None and any(not isinstance(phase, Frozen) for phase in module.freeze):
            raise UserError(f"{where} trains but has no learning rate.")

    def _check_something_trains(self) -> None:
        updates = {0} | {
            phase.until for module in self.modules.values() for phase in module.freeze if phase.until is not None
        }
        for update in sorted(updates):
            phases = [module.freeze[self.phase_at(module.name, update)] for module in self.modules.values()]
            if all(isinstance(phase, Frozen) for phase in phases):
                raise UserError(f"From update {update} on every module is frozen, so that there is nothing to train.")

    def phase_at(self, module: str, update: int) -> int:
        """Index of the phase that the declaration gives for an update."""
        return sum(phase.until is not None and phase.until <= update for phase in self.modules[module].freeze)

    def trains(self, name: str, phase: int) -> bool:
        """Whether the parameter of this name trains in the phase of this index of its module."""
        weight = adapted_name(name)
        module = self.modules[self._owner[weight]]
        is_adapter = saved_name(name) is None
        if weight in self._dead or is_adapter != (module.lora is not None):
            return False
        match module.freeze[phase]:
            case AllTrain():
                return True
            case Frozen():
                return False
            case LastLayers(count=count):
                last = [block for stack in self._live_blocks[module.name] for block in stack[-count:]]
                return any(weight.startswith(f"{block}.") for block in last)

    def pattern(self, name: str) -> tuple[bool, ...]:
        """For each phase of the parameter's module, whether the parameter trains in it."""
        module = self.modules[self.owner(name)]
        return tuple(self.trains(name, phase) for phase in range(len(module.freeze)))

    def set_flags(self) -> dict[str, list[str]]:
        """Sets `requires_grad` of every parameter to what the present phases say.

        Returns:
            The names whose flag changed, by module.
        """
        changed: dict[str, list[str]] = {}
        trains: dict[str, bool] = {}
        for name, parameter in self.named_parameters():
            trains[name] = self.trains(name, self.phase[self.owner(name)])
            if parameter.requires_grad != trains[name]:
                parameter.requires_grad_(trains[name])
                changed.setdefault(self.owner(name), []).append(name)
        return changed

    def enter_phase(self, update: int, optimizer: torch.optim.Optimizer, schedule: "Schedule") -> None:
        """Brings `requires_grad`, optimizer state and LRs to the phases of `update`. Call it on every rank before each update.

        At a boundary: parameters that unfreeze start with zero Adam moments and, where the phase says `rewarm`, with an LR that
        rises again; FSDP2 units that hold them are refreshed, since a unit that was wholly frozen has never settled the dtype of
        its gradients; no gradient is left over. A phase that has been left is not entered again, even if a changed plan has moved
        its boundary. The declared LRs are applied each time, because loading an optimizer brings back the saved ones.
        """
        for module in self.units:
            if isinstance(module, FSDPModule):
                module.reshard()  # an evaluation may have left it gathered, and flags belong on the sharded parameters
        before = dict(self.phase)
        for name in self.modules:
            self.phase[name] = max(before[name], self.phase_at(name, update))
        if self.phase != before:
            changed = self.set_flags()
            parameters = dict(self.named_parameters())
            for module, names in changed.items():
                unfrozen = [name for name in names if parameters[name].requires_grad]
                rewarm = self.modules[module].freeze[self.phase[module]].rewarm
                schedule.rewarm(module, {self.pattern(name) for name in unfrozen}, start=update, updates=rewarm)
                for name in names:
                    optimizer.state.pop(parameters[name], None)
                self._refresh(unfrozen)
            optimizer.zero_grad(set_to_none=True)
        schedule.apply(update)

    def _refresh(self, unfrozen: Sequence[str]) -> None:
        names = set(unfrozen)
        for unit, held in self.units.items():
            if isinstance(unit, FSDPModule) and held & names:
                unit.unshard()
                unit.reshard()

    def state_dict(self) -> dict[str, int]:
        """The phase in which each module is, for a checkpoint."""
        return dict(self.phase)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the phases of a checkpoint and sets the flags accordingly.

        Call it before the optimizer's state is loaded: the checkpoint holds states for what trained then. `enter_phase` of the
        next update then crosses a boundary as the uninterrupted run does.
        """
        for name, module in self.modules.items():
            self.phase[name] = min(int(state.get(name, 0)), len(module.freeze) - 1)
        self.set_flags()
