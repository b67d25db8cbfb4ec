"""What a checkpoint does not say, asked for by name."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vla_runtime.errors import UserError

from .sizes import CAMERAS, Sizes
from .statistics import Statistics

Dtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Request:
    """What the command line was told; None where a flag was not given."""

    source_layout: str
    source: Path
    target_layout: str
    target: Path
    chunk: int | None = None
    tokenizer_length: int | None = None
    cameras: dict[str, str] = field(default_factory=dict)
    state_dim: int | None = None
    action_dim: int | None = None
    delta_actions: str | None = None
    action_names: list[str] | None = None
    discrete_state: bool | None = None
    asset_id: str | None = None
    tokenizer: str | None = None
    dtype: Dtype | None = None
    action_steps: int | None = None
    reference: Path | None = None
    other_sizes: bool = False
    crop: str | None = None

    @classmethod
    def parse(cls, told: dict[str, Any]) -> "Request":
        """From the JSON object that the command line writes."""
        layouts = {key: told.pop(key) for key in ("from", "to")}
        given = {key: value for key, value in told.items() if value is not None}
        for key in ("reference",):
            if key in given:
                given[key] = Path(given[key])
        return cls(
            source_layout=layouts["from"]["layout"],
            source=Path(layouts["from"]["path"]),
            target_layout=layouts["to"]["layout"],
            target=Path(layouts["to"]["path"]),
            **given,
        )


@dataclass(frozen=True)
class Answers:
    """Everything that LeRobot's configuration needs beside the weights.

    Attributes:
        chunk: actions per prediction; openpi's `action_horizon`.
        tokenizer_length: padded length of the prompt; openpi's `max_token_len`.
        cameras: openpi's camera -> LeRobot's feature, in the model's order; cameras that the robot lacks are left out.
        state_dim: true width of the state.
        action_dim: true width of an action.
        relative: for each dimension of an action whether it is relative to the state.
        action_names: names of the dimensions.
        discrete_state: pi0.5 reads the state as text.
        action_steps: actions that are executed before the policy is asked again.
        tokenizer: directory of the tokenizer; None: LeRobot fetches it from the hub.
        dtype: of the weights.
    """

    chunk: int
    tokenizer_length: int
    cameras: dict[str, str]
    state_dim: int
    action_dim: int
    relative: tuple[bool, ...]
    action_names: tuple[str, ...]
    discrete_state: bool
    action_steps: int
    tokenizer: Path | None
    dtype: Dtype


TOKENIZER = "google/paligemma-3b-pt-224"
"""The hub id that LeRobot's pi0 and pi0.5 processors read their tokenizer by."""


def answers(
    request: Request, sizes: Sizes, statistics: dict[str, Statistics], dtypes: set[str], horizon: int | None
) -> Answers:
    """The answers, from the flags and from what the checkpoint says after all.

    Args:
        request: the flags.
        sizes: of the model.
        statistics: openpi's, `state` and `actions`.
        dtypes: of the checkpoint's tensors.
        horizon: `action_horizon` of the config.json that openpi's converter writes, where there is one.

    Raises:
        UserError: something is missing (everything that is, at once) or contradicts the checkpoint.
    """
    missing: list[tuple[str, str]] = []
    if horizon is not None and request.chunk is not None and request.chunk != horizon:
        raise UserError(f"--chunk {request.chunk}, but config.json says action_horizon {horizon}.")
    chunk = request.chunk if request.chunk is not None else horizon
    if chunk is None:
        missing.append(
            ("--chunk N", "actions per prediction: action_horizon in openpi's configuration; no weight shows it")
        )
    if request.tokenizer_length is None:
        default = 48 if sizes.family == "pi0" else 200
        missing.append(
            ("--tokenizer-length N", f"max_token_len in openpi's configuration ({default} unless it was set)")
        )
    for camera in CAMERAS:
        if camera not in request.cameras:
            missing.append(
                (
                    f"--camera {camera}=FEATURE",
                    f"the dataset's name of this camera, or {camera}=none if the robot has none",
                )
            )
    widths = {role: len(next(iter(values.values()))) for role, values in statistics.items()}
    state_dim = request.state_dim
    if state_dim is None and (sizes.state_dim is None or widths["state"] >= sizes.state_dim):
        why = (
            "it is text in the prompt"
            if sizes.state_dim is None
            else f"statistics and model are both {widths['state']} wide"
        )
        missing.append(
            (
                "--state-dim N",
                f"true width of the robot's state: no weight shows it ({why}; statistics: {widths['state']})",
            )
        )
    action_dim = request.action_dim
    if action_dim is None and widths["actions"] >= sizes.action_dim:
        missing.append(
            ("--action-dim N", f"true width of an action: statistics and model are both {widths['actions']} wide")
        )
    if request.delta_actions is None:
        missing.append(("--delta-actions MASK", "openpi's DeltaActions mask as in make_bool_mask (6,-1), or none"))
    if sizes.family == "pi05" and request.discrete_state is None:
        missing.append(
            ("--discrete-state yes|no", "discrete_state_input in openpi's configuration (no for pi05_libero)")
        )
    if request.tokenizer is None:
        missing.append(
            ("--tokenizer DIR|hub", f"directory of {TOKENIZER}, which then travels along, or hub to have it fetched")
        )
    dtype: Dtype | None = request.dtype
    if dtype is None and dtypes in ({"float32"}, {"bfloat16"}):
        dtype = "float32" if dtypes == {"float32"} else "bfloat16"
    if dtype is None:
        missing.append(("--dtype float32|bfloat16", f"the checkpoint mixes {' and '.join(sorted(dtypes))}"))
    if missing:
        width = max(len(flag) for flag, _ in missing)
        lines = [f"  {flag:{width}}  {why}" for flag, why in missing]
        raise UserError("\n".join(["The checkpoint does not say everything that LeRobot's policy needs. Add:", *lines]))
    assert chunk is not None and request.tokenizer_length is not None and request.delta_actions is not None
    assert request.tokenizer is not None and dtype is not None
    state_dim = _width("--state-dim", state_dim, widths["state"], sizes.state_dim or sizes.action_dim)
    action_dim = _width("--action-dim", action_dim, widths["actions"], sizes.action_dim)
    if sizes.family == "pi0" and request.discrete_state:
        raise UserError("--discrete-state yes is for pi0.5; pi0 reads the state as a token of its own.")
    _positive("--chunk", chunk)
    _positive("--tokenizer-length", request.tokenizer_length)
    steps = chunk if request.action_steps is None else request.action_steps
    if not 1 <= steps <= chunk:
        raise UserError(f"--action-steps {steps} is not between 1 and the chunk of {chunk}.")
    relative = _relative(request.delta_actions, action_dim, state_dim)
    return Answers(
        chunk=chunk,
        tokenizer_length=request.tokenizer_length,
        cameras=_cameras(request.cameras),
        state_dim=state_dim,
        action_dim=action_dim,
        relative=relative,
        action_names=_names(request.action_names, relative),
        discrete_state=bool(request.discrete_state),
        action_steps=steps,
        tokenizer=_tokenizer(request.tokenizer),
        dtype=dtype,
    )


def _positive(flag: str, value: int) -> None:
    if value < 1:
        raise UserError(f"{flag} {value}: a positive number is meant.")


def _width(flag: str, value: int | None, told: int, padded: int) -> int:
    width = told if value is None else value
    _positive(flag, width)
    if width > told:
        raise UserError(f"{flag} {width}, but the statistics cover {told} dimensions.")
    if width > padded:
        raise UserError(f"{flag} {width}, but the model is {padded} wide.")
    return width


def _cameras(given: dict[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - set(CAMERAS))
    if unknown:
        raise UserError(f"--camera {unknown[0]}=...: openpi's cameras are {', '.join(CAMERAS)}.")
    used = {camera: given[camera] for camera in CAMERAS if given[camera] != "none"}
    if not used:
        raise UserError("Every --camera is none: the policy needs at least one picture.")
    for camera, feature in used.items():
        if not feature.startswith("observation.images."):
            raise UserError(f"--camera {camera}={feature}: LeRobot's image features are named observation.images.NAME.")
        others = [other for other, name in used.items() if name == feature and other != camera]
        if others:
            raise UserError(
                f"--camera: {camera} and {others[0]} are both {feature}. Each needs a feature of its own, or none."
            )
    return used


def _relative(mask: str, action_dim: int, state_dim: int) -> tuple[bool, ...]:
    if mask == "none":
        return (False,) * action_dim
    try:
        runs = [int(part) for part in mask.split(",")]
    except ValueError:
        raise UserError(
            f"--delta-actions {mask}: whole numbers as in openpi's make_bool_mask are meant, 6,-1 for six relative dimensions and an "
            "absolute one, or none."
        ) from None
    flags = [run > 0 for run in runs for _ in range(abs(run))]
    if len(flags) > action_dim:
        raise UserError(f"--delta-actions {mask} is {len(flags)} dimensions long, an action has {action_dim}.")
    beyond = [index for index, flag in enumerate(flags) if flag and index >= state_dim]
    if beyond:
        raise UserError(
            f"--delta-actions {mask}: dimension {beyond[0]} is relative to a state of only {state_dim} dimensions."
        )
    return (*flags, *(False,) * (action_dim - len(flags)))


def _names(names: list[str] | None, relative: tuple[bool, ...]) -> tuple[str, ...]:
    """Names by which LeRobot tells absolute dimensions from relative ones: it looks for the one in the other as text."""
    count = len(relative)
    if names is None:
        return tuple(f"dimension_{index:03d}" for index in range(count))
    if len(names) != count or len(set(names)) != count:
        raise UserError(f"--action-names: {count} different names are meant, one for each dimension of an action.")
    if any(relative):
        for absolute in (name for name, flag in zip(names, relative, strict=True) if not flag):
            for name, flag in zip(names, relative, strict=True):
                if flag and absolute.lower() in name.lower():
                    raise UserError(
                        f"--action-names: {absolute} is absolute and {name} relative, but LeRobot would take {name} for absolute too, "
                        "since the one is part of the other. Choose other names."
                    )
    return tuple(names)


def _tokenizer(given: str) -> Path | None:
    if given == "hub":
        return None
    directory = Path(given)
    if not any((directory / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise UserError(f"--tokenizer {given}: no tokenizer.json and no tokenizer.model is there.")
    return directory.resolve()
