"""LeRobot's pi0 and pi0.5 policy directories to the layout of openpi's PyTorch code.

Its loader (openpi's policies/policy_config.py, create_trained_policy) takes a directory with `model.safetensors` for PyTorch, loads it
strictly into the model of a training configuration, and reads `assets/<asset id>/norm_stats.json`. `config.json` is what openpi's own
converter writes beside them; nobody reads it.
"""

import json
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor
from vla_runtime.errors import UserError

from .answers import Request
from .batch import check_reference
from .jobs import Job
from .keys import EMBEDDING, HEAD, openpi_name, openpi_tensors, torch_sizes, with_embedding
from .memory import peak, resident
from .places import Progress, enough_room, published
from .policies import load_config
from .safetensors_io import TensorFile, TensorWriter
from .sizes import CAMERAS, SO400M, Sizes, variant
from .statistics import MODES, NAMES, STATISTICS, Statistics, openpi_statistics

STATE, ACTION = "observation.state", "action"
STATE_TEXT = "pi05_prepare_state_tokenizer_processor_step"
KNOWN_STEPS = {
    "rename_observations_processor",
    "to_batch_processor",
    "pi0_new_line_processor",
    "Pi0NewLineProcessor",
    STATE_TEXT,
    "tokenizer_processor",
    "device_processor",
    "relative_actions_processor",
    "normalizer_processor",
    "unnormalizer_processor",
    "absolute_actions_processor",
}
PERIODS = {"min_period": 4e-3, "max_period": 4.0}
"""Of the time embedding; constants of openpi's code."""


def lerobot_to_openpi(request: Request, partial: Path) -> tuple[Job, dict[str, Any]]:
    """Writes the directory and tells how to verify it.

    Raises:
        UserError: the source is no whole policy directory, or says something that openpi's model has no place for.
    """
    source = request.source
    if not source.is_dir():
        raise UserError(f"{source} is not there, or is no directory.")
    if (source / "adapter_config.json").is_file() or not (source / "model.safetensors").is_file():
        _no_weights(source)
    config = load_config(source)
    if config.use_peft:
        _no_weights(source)
    file = TensorFile(source / "model.safetensors")
    shapes = {name: entry.shape for name, entry in file.entries.items()}
    sizes = torch_sizes(with_embedding(shapes), str(file.path), prefix="model.")
    published(sizes, request.other_sizes)
    _expressible(config, sizes, source)
    if request.asset_id is None:
        raise UserError(
            "LeRobot's directory does not say everything that openpi's needs. Add:\n  --asset-id ID  folder of the statistics: "
            "asset_id of the data configuration that will load it"
        )
    if Path(request.asset_id).is_absolute() or ".." in Path(request.asset_id).parts:
        raise UserError(
            f"--asset-id {request.asset_id}: a name is meant, such as trossen or physical-intelligence/libero."
        )
    features = list(config.image_features)
    cameras: dict[str, str] = dict(zip(CAMERAS, features, strict=False))
    if request.reference is not None:
        check_reference(request.reference, sizes, config.chunk_size, cameras)
    try:
        statistics, discrete, relative = _processors(source, config)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{source}: config.json and the processors are not as LeRobot writes them for {config.type} "
            f"({type(error).__name__}: {error})."
        ) from error

    tensors = {name: (file.entries[_stored(name)].dtype, shape) for name, shape in openpi_tensors(sizes).items()}
    libraries = resident()
    enough_room(partial, sum(torch.Size(shape).numel() * dtype.itemsize for dtype, shape in tensors.values()))
    print(f"{source}: LeRobot's {config.type}, {len(file.entries)} tensors", flush=True)
    embedding, overwritten = _embedding(file)
    progress = Progress(len(tensors), "tensors")
    with TensorWriter(partial / "model.safetensors", tensors, {}) as writer:
        for name in tensors:
            writer.write(name, file.read(embedding if name == openpi_name(HEAD) else _stored(name)))
            progress.step()
    assets = partial / "assets" / request.asset_id
    assets.mkdir(parents=True)
    told = {role: {name: values.tolist() for name, values in kept.items()} for role, kept in statistics.items()}
    (assets / "norm_stats.json").write_text(json.dumps({"norm_stats": told}, indent=2) + "\n")
    precision = "bfloat16" if config.dtype == "bfloat16" else "float32"
    written = {
        "action_dim": sizes.action_dim,
        "action_horizon": config.chunk_size,
        "paligemma_variant": config.paligemma_variant,
        "action_expert_variant": config.action_expert_variant,
        "precision": precision,
    }
    (partial / "config.json").write_text(json.dumps(written, indent=2) + "\n")

    model = (
        f"pi0_config.Pi0Config(pi05={config.type == 'pi05'}, action_dim={sizes.action_dim}, action_horizon={config.chunk_size}, "
        f"max_token_len={config.tokenizer_max_length}"
        + (f", discrete_state_input={discrete})" if config.type == "pi05" else ")")
    )
    notes = [
        "openpi's PyTorch loader reads this directory (create_trained_policy, which sees model.safetensors); its JAX loader does not.",
        f"What openpi takes from its training configuration and not from here: model={model}, asset_id={request.asset_id!r}.",
        "Cameras by their place in the model: "
        + ", ".join(f"{camera} = {feature}" for camera, feature in cameras.items())
        + ".",
    ]
    if any(relative):
        mask = ", ".join(str(flag) for flag in relative)
        notes.append(f"Actions are relative to the state: DeltaActions and AbsoluteActions with the mask ({mask}).")
    if overwritten:
        notes.append(
            "lm_head and embed_tokens differ and LeRobot's loader lets lm_head win, as it comes later in the file; so does this."
        )
    facts = {
        "from": {
            "layout": "lerobot",
            "name": source.resolve().name,
            "tensors": len(file.entries),
            "bytes": sum(entry.bytes for entry in file.entries.values()),
        },
        "to": {
            "layout": "openpi-pytorch",
            "type": config.type,
            "tensors": len(tensors),
            "dtype": precision,
            "assetId": request.asset_id,
        },
        "cameras": cameras,
        "chunk": config.chunk_size,
        "tokenizerLength": config.tokenizer_max_length,
        "stateDim": len(next(iter(statistics["state"].values()))),
        "actionDim": len(next(iter(statistics["actions"].values()))),
        "relativeActions": relative,
        "discreteState": discrete if config.type == "pi05" else None,
        "notes": notes,
        "memoryBytes": {"libraries": libraries, "peak": peak()},
    }
    (partial / "conversion.json").write_text(json.dumps(facts, indent=2) + "\n")
    job = Job(
        directory=str(source),
        cameras=cameras,
        openpi=str(partial),
        reference=None if request.reference is None else str(request.reference),
        norm_stats=str(assets / "norm_stats.json"),
        carried=False,
        openpi_is_new=True,
    )
    return job, facts


def _no_weights(source: Path) -> NoReturn:
    if (source / "adapter_config.json").is_file():
        raise UserError(
            f"{source} is an adapter (adapter_config.json): openpi's layout holds whole weights. Merge it into its base, save the policy, "
            "and convert that."
        )
    raise UserError(
        f"{source} has no model.safetensors with whole weights: it is no policy directory, or an adapter's."
    )


def _stored(name: str) -> str:
    """The name in LeRobot's file of one of openpi's tensors."""
    return f"model.{name}"


def _embedding(file: TensorFile) -> tuple[str, bool]:
    """The name of the embedding that LeRobot's loader uses, and whether that is not the one of its name.

    The loader copies `lm_head` over `embed_tokens` when it comes to it, so the later of the two in the file wins.
    """
    order = [name for name in file.entries if name in (EMBEDDING, HEAD)]
    if order[-1] == EMBEDDING:
        return EMBEDDING, False
    differ = EMBEDDING in order and not torch.equal(
        file.read(EMBEDDING), file.read(HEAD).to(file.entries[EMBEDDING].dtype)
    )
    return HEAD, differ


def _expressible(config: Any, sizes: Sizes, source: Path) -> None:
    """Raises UserError for what openpi's code has as a constant, where LeRobot's configuration says otherwise."""
    wrong: list[str] = []
    if sizes.state_dim not in (None, sizes.action_dim):
        wrong.append(
            f"the state is padded to {sizes.state_dim} and actions to {sizes.action_dim}; openpi has one width for both"
        )
    if sizes.vision.image != SO400M.image:
        wrong.append(f"pictures are {sizes.vision.image} pixels wide; openpi's are {SO400M.image}")
    wrong += [
        f"{name} is {getattr(config, name)}; in openpi it is {value}"
        for name, value in PERIODS.items()
        if getattr(config, name) != value
    ]
    if len(config.image_features) > len(CAMERAS):
        wrong.append(f"there are {len(config.image_features)} cameras; openpi's model has {len(CAMERAS)}")
    if sizes.published and (config.paligemma_variant, config.action_expert_variant) != (
        variant(sizes.language),
        variant(sizes.expert),
    ):
        wrong.append("config.json names other variants than the weights have")
    modes = {role: str(getattr(mode, "value", mode)) for role, mode in config.normalization_mapping.items()}
    wanted = {"VISUAL": "IDENTITY", "STATE": MODES[config.type], "ACTION": MODES[config.type]}
    wrong += [
        f"{role} is normalised by {modes.get(role)}; openpi's {config.type} by {mode}"
        for role, mode in wanted.items()
        if modes.get(role) != mode
    ]
    if wrong:
        raise UserError(
            "\n".join([f"openpi's model has no place for what {source} says:", *(f"  {line}" for line in wrong)])
        )


def _processors(source: Path, config: Any) -> tuple[dict[str, Statistics], bool, list[bool]]:
    """From the saved processors: statistics as openpi has them, whether the state is text, which dimensions are relative.

    Raises:
        UserError: a processor is missing or has a step that openpi lacks, or a statistic is missing.
    """
    from lerobot.processor.relative_action_processor import RelativeActionsProcessorStep

    before, after = _steps(source, "policy_preprocessor"), _steps(source, "policy_postprocessor")
    mode = MODES[config.type]
    normalizer, unnormalizer = before["normalizer_processor"], after["unnormalizer_processor"]
    pre = _state(source, normalizer)
    post = _state(source, unnormalizer)
    eps = {float(step["config"].get("eps", 1e-8)) for step in (normalizer, unnormalizer)}
    if len(eps) != 1:
        raise UserError(f"{source}: its two processors have different eps ({sorted(eps)}).")

    def of(feature: str, state: dict[str, Tensor], where: str) -> dict[str, Tensor]:
        kept = {name: state[f"{feature}.{name}"] for name in STATISTICS if f"{feature}.{name}" in state}
        needed = {"mean", "std", *NAMES[mode]}  # openpi's file always has the first two
        if lacking := sorted(needed - set(kept)):
            raise UserError(f"{source}: the {where} has no {', '.join(f'{feature}.{name}' for name in lacking)}.")
        return kept

    (epsilon,) = eps
    statistics = {
        "state": openpi_statistics(of(STATE, pre, "preprocessor"), None, mode, epsilon),
        "actions": openpi_statistics(of(ACTION, pre, "preprocessor"), of(ACTION, post, "postprocessor"), mode, epsilon),
    }
    widths = {"state": config.input_features[STATE].shape[0], "actions": config.output_features[ACTION].shape[0]}
    for role, width in widths.items():
        have = len(next(iter(statistics[role].values())))
        if have != width:
            raise UserError(f"{source}: {role} is {width} wide by config.json, its statistics cover {have}.")
    told = before["relative_actions_processor"]["config"]
    step = RelativeActionsProcessorStep(**told)
    relative = step._build_mask(widths["actions"]) if told["enabled"] else [False] * widths["actions"]
    return statistics, STATE_TEXT in before, relative


def _steps(source: Path, name: str) -> dict[str, dict[str, Any]]:
    file = source / f"{name}.json"
    if not file.is_file():
        raise UserError(f"{source} has no {file.name}: it is no complete policy directory.")
    try:
        steps = json.loads(file.read_text(encoding="utf-8"))["steps"]
        found = {str(step.get("registry_name") or step["class"].rpartition(".")[2]): step for step in steps}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{file} is not as LeRobot writes it ({type(error).__name__}: {error}).") from error
    foreign = sorted(set(found) - KNOWN_STEPS)
    if foreign:
        raise UserError(f"{file} has a step {foreign[0]}, which openpi has no counterpart of.")
    needed = (
        ("normalizer_processor", "relative_actions_processor")
        if name == "policy_preprocessor"
        else ("unnormalizer_processor",)
    )
    lost = [step for step in needed if step not in found]
    if lost:
        raise UserError(f"{file} has no step {lost[0]}.")
    return found


def _state(source: Path, step: dict[str, Any]) -> dict[str, Tensor]:
    name = step.get("state_file")
    if name is None:
        raise UserError(f"{source}: {step.get('registry_name')} has no statistics, so actions are in no robot's units.")
    file = TensorFile(source / name)
    return {name: file.read(name) for name in file.entries}
