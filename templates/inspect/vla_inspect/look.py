"""Builds a policy with LeRobot's class, without memory where it can be, and looks at it."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import draccus
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from vla_runtime.errors import UserError
from vla_runtime.policies.batch import PolicyBatch
from vla_runtime.policies.losses import losses_of
from vla_runtime.policies.samples import example_batch
from vla_runtime.policies.spec import PolicySpec, build_policy, policy_config
from vla_runtime.policies.training import prepare
from vla_runtime.policies.units import Trace, trace

from .callers import Callers
from .partition import Proposed, propose

_IMAGES = "observation.images."
_SMALL = 2**30
"""Bytes up to which a policy is built with values, so that a prediction can be run too."""


@dataclass(frozen=True)
class Request:
    """What to build.

    Attributes:
        type: LeRobot's name of the policy, or the one that the plugin registers.
        plugin: Python package that registers it.
        weights: policy directory whose config.json says the configuration; no weights are read.
        config: further fields of the configuration.
        cameras, image_size, state_dim, action_dim: features; None: those of `weights`, else one camera, 224 x 224, 8 and 7.
        tokenizer: directory of the tokenizer, where the policy's own name of it is not to be asked.
    """

    type: str
    plugin: str | None = None
    weights: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    cameras: list[str] | None = None
    image_size: list[int] | None = None
    state_dim: int | None = None
    action_dim: int | None = None
    tokenizer: str | None = None


def look(request: Request) -> dict[str, Any]:
    """The policy's modules, what of them is called, and a partition, as JSON.

    Raises:
        UserError: unknown type, plugin that fails to import, a configuration that LeRobot refuses, a package or file that is missing.
    """
    spec = _spec(request)
    config = policy_config(spec, device="cpu")
    _check_packages(request.type)
    policy = _built(spec)
    with Callers(policy) as callers:
        seen, because = _traced(policy, spec)
    modules = propose(policy, seen, callers.outside)
    parameters = dict(policy.named_parameters())
    return {
        "type": spec.type,
        "class": f"{type(policy).__module__}.{type(policy).__name__}",
        "cameras": list(spec.cameras),
        "state_dim": spec.state_dim,
        "action_dim": spec.action_dim,
        "chunk": len(config.action_delta_indices or [0]),
        "parameters": sum(parameter.numel() for parameter in parameters.values()),
        "bytes": sum(_bytes(parameter) for parameter in parameters.values()),
        "frozen": [name for name, parameter in parameters.items() if not parameter.requires_grad],
        "tree": _tree(policy),
        "traced": because is None,
        "because": because,
        "blocks": []
        if seen is None
        else [
            {
                "pattern": blocks.pattern,
                "kind": blocks.kind,
                "blocks": len(blocks.names),
                "called": len(blocks.called),
                "parameters": blocks.parameters,
            }
            for blocks in seen.blocks
        ],
        "called_from_outside": [name for module in modules for name in module.outside],
        "uncalled": [] if seen is None else list(seen.uncalled),
        "dead": [] if seen is None else list(seen.dead),
        "batch_norm": [name for name, module in policy.named_modules() if isinstance(module, _BatchNorm)],
        "loss": "own" if losses_of(spec.type).uncalled is not None else "validCount",
        "normalization": {
            kind: str(getattr(mode, "value", mode)) for kind, mode in config.normalization_mapping.items()
        },
        "recipe": _recipe(config),
        "modules": {module.name: _module(module, policy) for module in modules},
    }


def _spec(request: Request) -> PolicySpec:
    saved: Mapping[str, Any] = {}
    if request.weights is not None:
        file = Path(request.weights) / "config.json"
        if not file.is_file():
            raise UserError(f"{request.weights} has no config.json. Name a LeRobot policy directory.")
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as problem:
            raise UserError(f"{file} is no JSON ({problem}). Fetch it again.") from problem
        if not isinstance(saved, dict) or saved.get("type") != request.type:
            said = saved.get("type") if isinstance(saved, dict) else None
            raise UserError(f"{file} is of a policy of type {said!r}, not {request.type!r}.")
    inputs = {
        name: feature["shape"]
        for name, feature in (saved.get("input_features") or {}).items()
        if not name.rpartition(".")[2].startswith("empty_camera_")
    }
    output = (saved.get("output_features") or {}).get("action", {}).get("shape", [7])
    pictures = {name.removeprefix(_IMAGES): shape[-2:] for name, shape in inputs.items() if name.startswith(_IMAGES)}
    cameras = request.cameras or list(pictures) or ["front"]
    size = request.image_size
    sizes = {camera: tuple(size or pictures.get(camera) or [224, 224]) for camera in cameras}
    state = inputs.get("observation.state", [8 if not inputs else 0])[0]
    return PolicySpec(
        type=request.type,
        cameras=tuple(cameras),
        image_sizes=sizes,  # pyright: ignore[reportArgumentType]
        state_dim=state if request.state_dim is None else request.state_dim,
        action_dim=output[0] if request.action_dim is None else request.action_dim,
        config=request.config,
        batch_norm="frozen",
        plugin=request.plugin,
        pretrained=request.weights,
        tokenizer=request.tokenizer,
    )


def _check_packages(policy_type: str) -> None:
    try:
        get_policy_class(policy_type)
    except (ImportError, ValueError) as problem:
        missing = getattr(problem, "name", None)
        package = "" if missing is None else f" The package {missing!r} is missing."
        raise UserError(
            f"The code of the policy {policy_type} cannot be imported: {problem}.{package} LeRobot's optional "
            f"dependencies of a policy are an extra: pip install 'lerobot[{policy_type}]'."
        ) from problem


def _built(spec: PolicySpec) -> PreTrainedPolicy:
    """Without memory; where the constructor cannot do that, or there is little of it, for real."""
    try:
        with torch.device("meta"):
            policy = build_policy(spec)
    except UserError:
        return build_policy(spec)
    small = sum(_bytes(parameter) for parameter in policy.parameters()) <= _SMALL
    return build_policy(spec) if small and spec.pretrained is None else policy


def _traced(policy: PreTrainedPolicy, spec: PolicySpec) -> tuple[Trace | None, str | None]:
    try:
        batch = example_batch(spec)
        prepare(policy, spec)
        seen = trace(policy, batch)
        _predict(policy, batch)
        return seen, None
    except UserError as problem:
        return None, str(problem)
    except Exception as problem:  # whatever a policy's code and its processors do; the tree is worth showing without
        text = str(problem).strip()
        return None, f"{type(problem).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _predict(policy: Any, batch: PolicyBatch) -> None:
    """A prediction, where the policy has values: it may call other modules than a training step."""
    if any(parameter.is_meta for parameter in policy.parameters()):
        return
    policy.eval()
    with torch.no_grad():
        policy.predict(batch.to(next(policy.parameters()).device))
    policy.train()


def _bytes(parameter: nn.Parameter) -> int:
    return parameter.numel() * parameter.element_size()


def _tree(policy: nn.Module) -> list[dict[str, Any]]:
    """Every module with parameters, parents before children."""
    rows: list[dict[str, Any]] = []
    for name, module in policy.named_modules():
        own = list(module.parameters())
        if own:
            rows.append(
                {
                    "name": name,
                    "class": type(module).__name__,
                    "parameters": sum(parameter.numel() for parameter in own),
                    "bytes": sum(_bytes(parameter) for parameter in own),
                    "trainable": sum(parameter.numel() for parameter in own if parameter.requires_grad),
                }
            )
    return rows


def _module(module: Proposed, policy: nn.Module) -> dict[str, Any]:
    sizes = {name: parameter for name, parameter in policy.named_parameters() if name in module.names}
    return {
        "parameters": list(module.patterns),
        "blocks": list(module.blocks),
        "dead": list(module.dead),
        "count": sum(parameter.numel() for parameter in sizes.values()),
        "bytes": sum(_bytes(parameter) for parameter in sizes.values()),
        "trains": any(parameter.requires_grad for parameter in sizes.values()),
    }


def _recipe(config: PreTrainedConfig) -> dict[str, Any]:
    """LeRobot's optimizer and schedule of the policy."""
    told: dict[str, Any] = {}
    for name, preset in (("optimizer", config.get_optimizer_preset), ("schedule", config.get_scheduler_preset)):
        made = preset()
        told[name] = (
            {"type": made.type, **draccus.encode(dataclasses.asdict(made))}
            if made is not None and dataclasses.is_dataclass(made)
            else None
        )
    return told
