"""A LeRobot policy as declared, its configuration, and the policy itself with nothing loaded."""

import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

import draccus
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import nn

from ..errors import UserError
from ..mesh import device_type
from ..modeling.construct import real_buffers
from ..weights import locate

LerobotMode = Literal["MEAN_STD", "MIN_MAX", "QUANTILES", "QUANTILE10", "IDENTITY"]
STATE, ACTION, IMAGES = "observation.state", "action", "observation.images"
_OURS = {"type", "input_features", "output_features", "normalization_mapping", "device", "push_to_hub", "use_peft"}
# Fields of every configuration that say where a policy came from, and nothing of what it is.
_INHERITED = {"pretrained_path", "pretrained_revision", "repo_id", "private", "tags", "license", "use_amp"}
# Fields that make a constructor fetch weights, and what they are while a policy is built whose weights come from elsewhere.
_FETCHING: dict[str, Any] = {"pretrained_backbone_weights": None, "load_vlm_weights": False}


@dataclasses.dataclass(frozen=True)
class PolicySpec:
    """What pipeline.ts says about a policy of LeRobot's.

    Attributes:
        type: LeRobot's name of the policy, or the one that the plugin registers.
        cameras: the policy's cameras; their features are `observation.images.<camera>`.
        image_sizes: camera -> (height, width) of the pictures as they come from the dataset.
        state_dim: width of `observation.state`; 0 for a policy without proprioception.
        action_dim: width of `action`.
        config: fields of LeRobot's configuration class beside features, normalisation and device.
        normalization: STATE, ACTION, VISUAL -> LeRobot's mode.
        imagenet_statistics: pictures are normalised with ImageNet's mean and std instead of the dataset's.
        padding: whether actions outside of the episode count in the loss.
        statistics: of states and actions: the dataset's, or those in the pretrained policy's directory.
        batch_norm: refuse batch normalisation that learns its statistics, or freeze the statistics as they are.
        plugin: Python package that registers the type when it is imported.
        pretrained: directory or hub id of a LeRobot policy.
        revision: of the hub id.
        tokenizer: directory of the tokenizer, where LeRobot's own name of it (a gated hub id, for some) is not to be asked.
    """

    type: str
    cameras: tuple[str, ...]
    image_sizes: Mapping[str, tuple[int, int]]
    state_dim: int
    action_dim: int
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    normalization: Mapping[str, LerobotMode] = dataclasses.field(default_factory=dict)
    imagenet_statistics: bool = False
    padding: Literal["masked", "counted"] = "masked"
    statistics: Literal["dataset", "inherited"] = "dataset"
    batch_norm: Literal["refuse", "frozen"] = "refuse"
    plugin: str | None = None
    pretrained: str | None = None
    revision: str | None = None
    tokenizer: str | None = None

    def features(self) -> dict[str, str]:
        """Feature of the policy -> STATE, ACTION or VISUAL."""
        state = {STATE: "STATE"} if self.state_dim else {}
        return {**{f"{IMAGES}.{camera}": "VISUAL" for camera in self.cameras}, **state, ACTION: "ACTION"}


def policy_config(spec: PolicySpec, *, device: str | None = None) -> Any:
    """LeRobot's configuration of the policy.

    Args:
        spec: the declaration.
        device: `cpu` or `cuda`; default: where this process computes.

    Raises:
        UserError: unknown type, plugin that fails to import, a field that the class does not have or does not accept.
    """
    kind = _config_class(spec)
    taken = sorted(_OURS & set(spec.config))
    if taken:
        raise UserError(
            f"config of {spec.type} says {', '.join(taken)}, which the declaration says elsewhere. Drop it there."
        )
    inputs: dict[str, Any] = {
        f"{IMAGES}.{camera}": {"type": "VISUAL", "shape": [3, *spec.image_sizes[camera]]} for camera in spec.cameras
    }
    if spec.state_dim:
        inputs[STATE] = {"type": "STATE", "shape": [spec.state_dim]}
    values = {
        **_pretrained_fields(spec),
        **spec.config,
        "input_features": inputs,
        "output_features": {ACTION: {"type": "ACTION", "shape": [spec.action_dim]}},
        "device": device or device_type(),
        "push_to_hub": False,
    }
    if spec.normalization:
        values["normalization_mapping"] = dict(spec.normalization)
    fields = {field.name for field in dataclasses.fields(cast(Any, kind))}
    if "do_mask_loss_for_padding" in fields:
        masked = spec.padding == "masked"
        if values.setdefault("do_mask_loss_for_padding", masked) != masked:
            raise UserError(
                f"config of {spec.type} says do_mask_loss_for_padding={values['do_mask_loss_for_padding']}, "
                f"but padding is '{spec.padding}'. Say it once, as padding."
            )
    try:
        config: Any = draccus.decode(kind, values)
        config.validate_features()
        leave_out_empty_cameras(config)
    except Exception as problem:  # each configuration class raises what its author chose
        raise UserError(
            f"LeRobot does not accept the configuration of {spec.type}: {_first_line(problem)}"
        ) from problem
    return config


def leave_out_empty_cameras(config: Any) -> None:
    """Takes LeRobot's empty cameras out of the features, in place: every constructor adds them anew.

    X-VLA's counts those that are there already as cameras, so that a configuration which names them has more views each time that it
    is loaded (`XVLAConfig.validate_features`).
    """
    empty = f"{IMAGES}.empty_camera_"
    config.input_features = {n: each for n, each in config.input_features.items() if not n.startswith(empty)}


def build_policy(spec: PolicySpec) -> PreTrainedPolicy:
    """The policy as LeRobot's own class initialises it, on the device where this process computes.

    Under `torch.device("meta")` no parameter has memory and nothing is fetched (the backbone's published weights, the base model):
    the weights come from the pretrained policy. Buffers are real, on the CPU.

    Raises:
        UserError: see `policy_config`; a constructor that fails, for example because an optional dependency is not installed.
    """
    config = policy_config(spec)
    on_meta = torch.get_default_device().type == "meta"
    declared = {name: getattr(config, name) for name in _FETCHING if on_meta and hasattr(config, name)}
    try:
        kind = get_policy_class(spec.type)
        for name in declared:
            setattr(config, name, _FETCHING[name])
        with real_buffers(), _shapes_without_values(kind, on_meta), _staying_on_meta(on_meta):
            policy = kind(config)
    except Exception as problem:  # each policy class raises what its author chose
        raise UserError(f"LeRobot cannot build the policy {spec.type}: {_first_line(problem)}") from problem
    for name, value in declared.items():
        setattr(config, name, value)
    if not on_meta:
        policy.to(config.device)
    return policy.train()


def _pretrained_fields(spec: PolicySpec) -> dict[str, Any]:
    """The fields of the pretrained policy's own configuration that the declaration has no words for.

    Raises:
        UserError: no config.json, or one of another policy type.
    """
    if spec.pretrained is None:
        return {}
    file = locate(spec.pretrained, spec.revision) / "config.json"
    try:
        saved = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError) as problem:
        raise UserError(f"{file}: cannot read the configuration of the pretrained policy ({problem}).") from None
    if saved.get("type") != spec.type:
        raise UserError(f"{file} is of a policy of type {saved.get('type')!r}, the declaration says {spec.type!r}.")
    return {name: value for name, value in saved.items() if name not in _OURS and name not in _INHERITED}


def _config_class(spec: PolicySpec) -> type[PreTrainedConfig]:
    if spec.plugin is not None:
        try:
            importlib.import_module(spec.plugin)
        except Exception as problem:  # a plugin can fail in any way; its own error is what helps
            raise UserError(
                f"The plugin {spec.plugin} of the policy {spec.type} cannot be imported: {type(problem).__name__}: {problem}"
            ) from problem
    known = PreTrainedConfig.get_known_choices()
    if spec.type not in known:
        where = (
            f"the plugin {spec.plugin} registers no such type" if spec.plugin else "a plugin may register it: name it"
        )
        raise UserError(f"LeRobot knows no policy {spec.type!r} ({where}). Known are {', '.join(sorted(known))}.")
    return PreTrainedConfig.get_choice_class(spec.type)


@contextmanager
def _staying_on_meta(on_meta: bool) -> Iterator[None]:
    """Within: a constructor that moves its network to the configured device, as pi0's does, leaves parameters without memory alone."""
    if not on_meta:
        yield
        return
    original = nn.Module.to

    def to(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]
        if device is None or not any(parameter.is_meta for parameter in module.parameters()):
            return original(module, *args, **kwargs)
        return module if dtype is None else original(module, dtype=dtype)

    nn.Module.to = to  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        nn.Module.to = original


@contextmanager
def _shapes_without_values(kind: type[PreTrainedPolicy], on_meta: bool) -> Iterator[None]:
    """Within: where parameters are on the meta device, LeRobot finds the shape of a backbone's output there."""
    module: Any = sys.modules[kind.__module__]
    original = getattr(module, "get_output_shape", None)
    if original is None or not on_meta:
        yield
        return

    def output_shape(network: nn.Module, input_shape: Sequence[int]) -> tuple[int, ...]:
        state = {name: tensor.to("meta") for name, tensor in [*network.named_parameters(), *network.named_buffers()]}
        with torch.no_grad():
            output = torch.func.functional_call(network, state, torch.zeros(*input_shape, device="meta"))
        return tuple(output.shape)

    module.get_output_shape = output_shape
    try:
        yield
    finally:
        module.get_output_shape = original


def _first_line(problem: BaseException) -> str:
    """What an error says, and what the error says that it comes from."""
    text = str(problem).strip()
    told = text.splitlines()[0] if text else type(problem).__name__
    return told if problem.__cause__ is None else f"{told.rstrip('.')} ({_first_line(problem.__cause__)})"
