"""LeRobot's own processors for a policy: what training, verification and the package all run, with checked statistics."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lerobot.policies.factory import make_pre_post_processors
from lerobot.processor import AbsoluteActionsProcessorStep, RelativeActionsProcessorStep, tokenizer_processor
from lerobot.utils.constants import IMAGENET_STATS
from safetensors.torch import load_file

from ..datasets import Source
from ..errors import UserError
from ..statistics import Constant, Mode, effective_statistics, read_statistics, recipe
from ..weights import locate
from .spec import ACTION, STATE, PolicySpec, policy_config

if TYPE_CHECKING:
    from ..run import Run

Recipes = dict[str, dict[str, Any]]
"""Feature of the policy -> the arguments of `vla_runtime.modeling.normalize.normalizer`; JSON."""
MODES: dict[str, Mode] = {
    "MEAN_STD": "meanStd",
    "MIN_MAX": "minMax",
    "QUANTILES": "quantiles",
    "QUANTILE10": "quantile10",
    "IDENTITY": "identity",
}
_RELATIVE_CHUNKS = 50_000  # action windows, evenly spread, from which statistics of relative actions are computed


def policy_processors(spec: PolicySpec, recipes: Recipes, *, device: str = "cpu") -> tuple[Any, Any]:
    """LeRobot's pre- and postprocessor of the policy.

    The preprocessor normalises, the postprocessor undoes it. A constant action dimension that is declared to become 0 needs other
    statistics for the one than for the other, so that the two may come from two calls of LeRobot's factory.

    Args:
        spec: the declaration.
        recipes: how each feature is normalised (`policy_recipes`).
        device: to which the preprocessor moves what it returns.

    Returns:
        (preprocessor, postprocessor), as `lerobot.policies.factory.make_pre_post_processors` makes them.

    Raises:
        UserError: the tokenizer or another file of the processors is not at hand.
    """
    config = policy_config(spec, device=device)
    forward, backward = (
        {feature: effective_statistics(rule, inverse=inverse) for feature, rule in recipes.items()}
        for inverse in (False, True)
    )
    before, after = _make(spec, config, forward)
    action = recipes.get(ACTION)
    if action is not None and any(
        not torch.equal(forward[ACTION][key], backward[ACTION][key]) for key in forward[ACTION]
    ):
        _, after = _make(spec, config, backward)
        relative = next((step for step in before.steps if isinstance(step, RelativeActionsProcessorStep)), None)
        for step in after.steps:
            if isinstance(step, AbsoluteActionsProcessorStep):
                step.relative_step = relative
    return before, after


def check_processors(run: "Run", spec: PolicySpec) -> None:
    """Notes on the run what keeps LeRobot from making the policy's processors: a tokenizer that this node does not have, a plugin
    that fails to import. Statistics are for later: the dataset may still have to be fetched.
    """
    if run.local_rank != 0:
        return
    try:
        _make(spec, policy_config(spec, device="cpu"), {})
    except UserError as missing:
        run.findings.append(str(missing))


def policy_recipes(spec: PolicySpec, source: Source, *, constant: Constant) -> Recipes:
    """How each feature of the policy is normalised with the statistics that the declaration chooses.

    Args:
        spec: the declaration.
        source: the dataset.
        constant: what to do with a dimension that does not vary: stop, leave it as it is, or map it to 0.

    Raises:
        UserError: a needed statistic is missing, not finite or of another width, or a dimension is constant and nothing was said about
            that; naming the feature.
    """
    path = source.root / "meta" / "stats.json"
    inherited = _inherited(spec) if spec.statistics == "inherited" else {}
    roles = {ACTION: source.spec.action, STATE: source.spec.state}
    widths = {ACTION: spec.action_dim, STATE: spec.state_dim}
    made: Recipes = {}
    for feature, kind in spec.features().items():
        mode = MODES[spec.normalization.get(kind, "IDENTITY")]
        theirs = roles.get(feature) or source.spec.cameras[feature.rpartition(".")[2]]
        where: Path | str = path
        names = source.names(theirs)
        if mode == "identity":
            statistics: dict[str, list[float]] = {}
        elif feature in inherited:
            statistics, where = inherited[feature], f"the statistics of {spec.pretrained}"
        elif kind == "VISUAL":
            statistics = (
                _imagenet() if spec.imagenet_statistics and mode == "meanStd" else read_statistics(path, theirs)
            )
            names = None
        elif spec.statistics == "inherited":
            raise UserError(
                f"{spec.pretrained} has no statistics of '{feature}', which are to be inherited; it has "
                f"{', '.join(sorted(inherited)) or 'none'}. Use the dataset's: statistics: 'dataset'."
            )
        elif feature == ACTION and (relative := relative_mask(spec)) is not None:
            statistics = _relative_statistics(spec, source, relative)
        else:
            statistics = read_statistics(path, theirs)
        width = widths.get(feature, 3)
        wrong = {key: len(values) for key, values in statistics.items() if len(values) != width}
        if wrong:
            key, found = next(iter(wrong.items()))
            raise UserError(
                f"{where}: the statistic '{key}' of '{theirs}' has {found} values, the policy's {feature} has {width}."
            )
        made[feature] = recipe(
            theirs, mode, statistics, constant=constant, mask=None, clip=False, where=where, names=names
        )
    return made


def _make(spec: PolicySpec, config: Any, statistics: dict[str, dict[str, torch.Tensor]]) -> tuple[Any, Any]:
    try:
        with _local_tokenizer(spec):
            return make_pre_post_processors(config, dataset_stats=statistics)
    except Exception as problem:  # hub, transformers and each policy's factory raise their own
        text = str(problem).strip()
        raise UserError(
            f"LeRobot cannot make the processors of {spec.type}: {text.splitlines()[0] if text else type(problem).__name__}. "
            "If a tokenizer is missing, fetch it into the hub's cache where there is a network (hf download <its name>), "
            "or name its directory in the model: tokenizer: './folder'."
        ) from problem


@contextmanager
def _local_tokenizer(spec: PolicySpec) -> Iterator[None]:
    """Within: LeRobot's tokenizer step reads the declared directory, whatever hub name the policy's factory knows."""
    if spec.tokenizer is None:
        yield
        return
    directory = locate(spec.tokenizer, None)
    original: Any = tokenizer_processor.AutoTokenizer

    class FromDirectory:
        @staticmethod
        def from_pretrained(_name: str, *args: Any, **kwargs: Any) -> Any:
            return original.from_pretrained(str(directory), *args, **kwargs)

    tokenizer_processor.AutoTokenizer = FromDirectory
    try:
        yield
    finally:
        tokenizer_processor.AutoTokenizer = original


def _imagenet() -> dict[str, list[float]]:
    return {key: torch.tensor(values, dtype=torch.float64).flatten().tolist() for key, values in IMAGENET_STATS.items()}


def _inherited(spec: PolicySpec) -> dict[str, dict[str, list[float]]]:
    """Statistics that a LeRobot policy directory holds, by feature: inputs from its pre-, actions from its postprocessor."""
    if spec.pretrained is None:
        raise UserError("Statistics are to be inherited, but no pretrained policy is named. Name its weights.")
    directory = locate(spec.pretrained, spec.revision)
    found: dict[str, dict[str, list[float]]] = {}
    for name, step in (
        ("policy_preprocessor", "normalizer_processor"),
        ("policy_postprocessor", "unnormalizer_processor"),
    ):
        path = directory / f"{name}.json"
        try:
            steps = json.loads(path.read_text())["steps"]
            files = [
                entry["state_file"] for entry in steps if entry.get("registry_name") == step and "state_file" in entry
            ]
            for file in files:
                for key, tensor in load_file(directory / file).items():
                    feature, _, statistic = key.rpartition(".")
                    found.setdefault(feature, {})[statistic] = tensor.double().flatten().tolist()
        except FileNotFoundError as problem:
            raise UserError(
                f"{problem.filename or path} is missing, so no statistics can be inherited from {directory}."
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{path}: cannot read the policy's processors ({problem}).") from None
    return found


def relative_mask(spec: PolicySpec) -> torch.Tensor | None:
    """bool [A]: which action dimensions are relative to the state of the sample's frame; None for absolute actions.

    Raises:
        UserError: joints are excluded by name, but the configuration has no names.
    """
    config = policy_config(spec, device="cpu")
    if not getattr(config, "use_relative_actions", False):
        return None
    exclude, names = (
        list(getattr(config, "relative_exclude_joints", []) or []),
        getattr(config, "action_feature_names", None),
    )
    if exclude and not names:
        raise UserError(
            f"{spec.type} has relative actions except for {', '.join(exclude)}, but action_feature_names does not say which dimensions "
            "these are; LeRobot would make all of them relative. Name the dimensions, or set relative_exclude_joints to []."
        )
    step = RelativeActionsProcessorStep(enabled=True, exclude_joints=exclude, action_names=names)
    mask = torch.tensor(step._build_mask(spec.action_dim))
    if mask.all() and "relative_exclude_joints" in spec.config and exclude:
        raise UserError(
            f"{spec.type} has relative actions except for {', '.join(exclude)}, and no action dimension is called that: they are "
            f"{', '.join(names or ())}. LeRobot would make all of them relative. Correct relative_exclude_joints."
        )
    return mask


def _relative_statistics(spec: PolicySpec, source: Source, mask: torch.Tensor) -> dict[str, list[float]]:
    """Statistics of relative actions over the windows that are trained on, padding excluded: the dataset's are of absolute ones."""
    deltas = policy_config(spec, device="cpu").action_delta_indices
    if spec.state_dim < spec.action_dim:
        raise UserError(
            f"Relative actions need a state as wide as the action: {spec.state_dim} and {spec.action_dim} dimensions."
        )
    step = max(1, len(source.training) // _RELATIVE_CHUNKS)
    values = []
    for frame in source.training[::step]:
        frames, outside = source.window(frame, deltas)
        actions = source.actions_of(frames)[~outside].double()
        values.append(actions - source.state(frame).double()[: spec.action_dim] * mask)
    every = torch.cat(values)
    ordered = every.sort(dim=0).values
    at = {
        key: round(share * (len(ordered) - 1))
        for key, share in (("q01", 0.01), ("q10", 0.1), ("q90", 0.9), ("q99", 0.99))
    }
    statistics = {"mean": every.mean(0), "std": every.std(0, correction=0), "min": ordered[0], "max": ordered[-1]}
    return {key: value.tolist() for key, value in {**statistics, **{k: ordered[i] for k, i in at.items()}}.items()}
