"""OpenVLA between its published layout (hf), its native one (prismatic) and our LeRobot plugin.

The three hold the same tensors under other names, so that a conversion changes no bit. Names: openvla's
vla-scripts/extern/convert_openvla_weights_to_hf.py; the plugin has those of the published layout.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from vla_runtime.errors import UserError
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig
from vla_runtime.modeling.openvla import CAMERA, openvla_config, openvla_json, preprocessor_json

from .answers import Request
from .jobs import RenamedJob
from .memory import peak, resident
from .places import Progress, enough_room
from .safetensors_io import TensorFile, TensorWriter, differences

PLUGIN = "lerobot_policy_vla_composed"
SHARD_BYTES = 5_000_000_000

# Native name -> published name, by prefix: with two towers DINOv2 is the first.
_FUSED = {
    "vision_backbone.dino_featurizer.": "vision_backbone.featurizer.",
    "vision_backbone.siglip_featurizer.": "vision_backbone.fused_featurizer.",
}
_SINGLE = {"vision_backbone.featurizer.": "vision_backbone.featurizer."}
_OTHERS = {
    "llm_backbone.llm.": "language_model.",
    "projector.projector.0.": "projector.fc1.",
    "projector.projector.2.": "projector.fc2.",
    "projector.projector.4.": "projector.fc3.",
}
_GAMMA, _SCALE = ".gamma", ".scale_factor"
"""LayerScale; transformers renames every gamma it reads, so the published layout has another word."""
_PARTS = ("vision_backbone", "projector", "llm_backbone")

BASE_VLMS: dict[str, dict[str, Any]] = {
    f"prism-dinosiglip{pixels}+7b": {
        "model_type": "openvla",
        "arch_specifier": "no-align+fused-gelu-mlp",
        "timm_model_ids": ["vit_large_patch14_reg4_dinov2.lvd142m", f"vit_so400m_patch14_siglip_{size}"],
        "timm_override_act_layers": [None, None],
        "image_sizes": [size, size],
        "pad_to_multiple_of": 64,
        "n_action_bins": 256,
        "text_config": {"model_type": "llama", "pad_token_id": 32_000, "vocab_size": 32_064},
    }
    for pixels, size in (("-224px", 224), ("", 384))
}
"""Native runs name their architecture (prismatic/conf/models.py); these are the ones that OpenVLA was trained from."""


@dataclass(frozen=True)
class Openvla:
    """An opened model.

    Attributes:
        name: of its directory.
        config: the architecture.
        norm_stats: dataset -> `{"action": {"q01", "q99", "mask", ...}, ...}`.
        shapes: published name -> dtype and shape.
        read: the tensor of a published name.
        tokenizer: directory of the tokenizer, or None.
        plugin: what only a plugin's directory says: `cameras` and `crop`.
    """

    name: str
    config: VLAConfig
    norm_stats: dict[str, Any]
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]]
    read: Callable[[str], Tensor]
    tokenizer: Path | None
    plugin: dict[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Size of its tensors."""
        return sum(torch.Size(shape).numel() * dtype.itemsize for dtype, shape in self.shapes.values())


# ------------------------------------------------------------------------------------------------ reading


def open_openvla(layout: str, path: Path) -> Openvla:
    """Opens a directory, its tensors accounted for by name and shape.

    Raises:
        UserError: something is missing, or it is of another model.
    """
    try:
        opened = {"hf": _open_hf, "prismatic": _open_prismatic, "plugin": _open_plugin}[layout](path)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"{path} is not as {layout}: directories are written ({type(error).__name__}: {error}). Its JSON files say the architecture, "
            "the statistics and where the tensors lie."
        ) from error
    with torch.device("meta"):
        model = ComposedVLA(opened.config)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    lines = differences(wanted, {name: shape for name, (_, shape) in opened.shapes.items()})
    if lines:
        raise UserError("\n".join([f"{path} does not hold the tensors of its model.", *lines, "Nothing was written."]))
    return opened


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise UserError(f"{file} is not there.")
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is no JSON ({error}).") from error
    if not isinstance(told, dict):
        raise UserError(f"{file} is not as it is meant: an object.")
    return told


def _files(directory: Path) -> tuple[dict[str, tuple[torch.dtype, tuple[int, ...]]], Callable[[str], Tensor]]:
    index = directory / "model.safetensors.index.json"
    names = ["model.safetensors"] if not index.is_file() else sorted(set(_json(index)["weight_map"].values()))
    place = {name: file for file in (TensorFile(directory / name) for name in names) for name in file.entries}
    shapes = {name: (file.entries[name].dtype, file.entries[name].shape) for name, file in place.items()}
    return shapes, lambda name: place[name].read(name)


def _open_hf(directory: Path) -> Openvla:
    told = _json(directory / "config.json")
    if told.get("model_type") != "openvla":
        raise UserError(
            f"{directory / 'config.json'} is of a {told.get('model_type')}, not of OpenVLA's layout (model_type openvla)."
        )
    preprocessor = directory / "preprocessor_config.json"
    norm_stats = dict(told.get("norm_stats") or {})
    statistics = directory / "dataset_statistics.json"
    if statistics.is_file():
        norm_stats |= _json(statistics)  # a fine-tuned directory has its own there alone
    _statistics(norm_stats, directory)
    config = openvla_config(
        told, _json(preprocessor) if preprocessor.is_file() else None, action_dim=_action_dim(norm_stats)
    )
    shapes, read = _files(directory)
    tokenizer = directory if (directory / "tokenizer_config.json").is_file() else None
    return Openvla(directory.resolve().name, config, norm_stats, shapes, read, tokenizer)


def _statistics(norm_stats: dict[str, Any], directory: Path) -> None:
    if not norm_stats:
        raise UserError(
            f"{directory} has no statistics: neither norm_stats in config.json nor dataset_statistics.json."
        )
    for dataset, kept in norm_stats.items():
        action = kept.get("action", {}) if isinstance(kept, dict) else {}
        if not {"q01", "q99"} <= set(action):
            raise UserError(f"{directory}: the statistics of {dataset} have no q01 and q99 of the action.")


def _action_dim(norm_stats: dict[str, Any]) -> int:
    widths = {len(kept["action"]["q01"]) for kept in norm_stats.values()}
    if len(widths) != 1:
        raise UserError(
            f"The statistics are of actions of different widths ({sorted(widths)}), and the policy has one."
        )
    return widths.pop()


def _open_prismatic(path: Path) -> Openvla:
    run = path.parent.parent if path.suffix == ".pt" else path
    file = path if path.suffix == ".pt" else _newest(run)
    base = _json(run / "config.json").get("vla", {}).get("base_vlm")
    if base not in BASE_VLMS:
        raise UserError(f"{run / 'config.json'}: vla.base_vlm is {base!r}; known are {', '.join(BASE_VLMS)}.")
    norm_stats = _json(run / "dataset_statistics.json")
    _statistics(norm_stats, run)
    config = openvla_config(BASE_VLMS[base], action_dim=_action_dim(norm_stats))
    try:
        parts = torch.load(file, map_location="cpu", weights_only=True, mmap=True)["model"]
        native = {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{file} cannot be read as a native checkpoint ({reason}): a zipped .pt file with `model` is meant; code in it is not run."
        ) from error
    tensors = {_published(name, fused=len(config.vision) == 2): tensor for name, tensor in native.items()}
    shapes = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    return Openvla(run.resolve().name, config, norm_stats, shapes, lambda name: tensors[name], None)


def _newest(run: Path) -> Path:
    found = sorted((run / "checkpoints").glob("*.pt"))
    latest = run / "checkpoints" / "latest-checkpoint.pt"
    if latest in found or len(found) == 1:
        return latest if latest in found else found[0]
    if not found:
        raise UserError(f"{run} is no native run: it has no checkpoints/*.pt.")
    names = ", ".join(file.name for file in found[:8])
    raise UserError(f"{run} has several checkpoints ({names}). Name one: prismatic:{found[-1]}")


def _published(native: str, *, fused: bool) -> str:
    for old, new in ((_FUSED if fused else _SINGLE) | _OTHERS).items():
        if native.startswith(old):
            renamed = new + native.removeprefix(old)
            return renamed.removesuffix(_GAMMA) + _SCALE if renamed.endswith(_GAMMA) else renamed
    return native  # told as not known, by its own name


def _native(published: str, *, fused: bool) -> str:
    for new, old in ((_FUSED if fused else _SINGLE) | _OTHERS).items():
        if published.startswith(old):
            renamed = new + published.removeprefix(old)
            return renamed.removesuffix(_SCALE) + _GAMMA if renamed.endswith(_SCALE) else renamed
    raise UserError(f"The native layout has no place for {published}.")


def _open_plugin(path: Path) -> Openvla:
    directory = path
    if not (path / "config.json").is_file():
        found = sorted(file.parent for file in path.glob("policy*/config.json"))
        if len(found) != 1:
            names = ", ".join(f"plugin:{folder}" for folder in found) or "none"
            raise UserError(f"{path} holds {len(found)} policy directories, and one is converted at a time: {names}.")
        directory = found[0]
    told = _json(directory / "config.json")
    if told.get("type") != "vla_composed":
        raise UserError(
            f"{directory / 'config.json'} is a policy of type {told.get('type')}, not of our plugin (vla_composed)."
        )
    config = VLAConfig.from_dict(told["vla"])
    after = _json(directory / "policy_postprocessor.json")
    step = next((step for step in after["steps"] if step.get("registry_name") == "unnormalizer_processor"), None)
    if step is None or "state_file" not in step or told["normalization_mapping"].get("ACTION") != "QUANTILES":
        raise UserError(f"{directory}: its actions are not normalised by quantiles, as OpenVLA's are.")
    file = TensorFile(directory / step["state_file"])
    action = {
        name.removeprefix("action."): file.read(name).double().tolist()
        for name in file.entries
        if name.startswith("action.")
    }
    # A dimension that passes was given the bounds -1 and 1, which change nothing.
    action["mask"] = [(low, high) != (-1.0, 1.0) for low, high in zip(action["q01"], action["q99"], strict=True)]
    shapes, read = _files(directory)
    tokenizer = directory / "tokenizer"
    return Openvla(
        path.resolve().name,
        config,
        {"dataset": {"action": action}},
        shapes,
        read,
        tokenizer if tokenizer.is_dir() else None,
        {"cameras": told["cameras"], "crop": told["crop"]},
    )


# ------------------------------------------------------------------------------------------------ writing


def between_openvla(request: Request, partial: Path) -> tuple[RenamedJob, dict[str, Any]]:
    """Writes one layout from another and tells how to verify it.

    Raises:
        UserError: the source is not whole, an answer is missing, or the target has no place for the model.
    """
    source = open_openvla(request.source_layout, request.source)
    libraries = resident()
    enough_room(partial, source.bytes)
    print(f"{request.source}: {len(source.shapes)} tensors, {source.bytes:,} bytes", flush=True)
    told = {"hf": _write_hf, "prismatic": _write_prismatic, "plugin": _write_plugin}[request.target_layout](
        request, source, partial
    )
    facts = {
        "from": {
            "layout": request.source_layout,
            "name": source.name,
            "tensors": len(source.shapes),
            "bytes": source.bytes,
        },
        "to": {"layout": request.target_layout, "tensors": len(source.shapes)},
        **told,
        "memoryBytes": {"libraries": libraries, "peak": peak()},
    }
    (partial / "conversion.json").write_text(json.dumps(facts, indent=2) + "\n")
    job = RenamedJob(request.source_layout, str(request.source), request.target_layout, str(partial))
    return job, facts


def _expressible(source: Openvla) -> dict[str, Any]:
    """config.json of the published layout; UserError where it cannot say the architecture."""
    dtypes = {dtype for dtype, _ in source.shapes.values()}
    dtype = "bfloat16" if dtypes == {torch.bfloat16} else "float32"
    norm_stats = source.norm_stats
    try:
        told = openvla_json(source.config, norm_stats, dtype)
    except (ValueError, KeyError) as error:
        raise UserError(f"{source.name} is no OpenVLA: {error}") from error
    again = openvla_config(told, preprocessor_json(source.config), action_dim=source.config.action_dim)
    if again != source.config:
        mine, theirs = source.config.to_dict(), again.to_dict()
        other = sorted(name for name in mine if mine[name] != theirs[name])
        raise UserError(f"{source.name} is no OpenVLA: its layout cannot say this model's {', '.join(other)}.")
    return told


def _write_hf(request: Request, source: Openvla, partial: Path) -> dict[str, Any]:
    (partial / "config.json").write_text(json.dumps(_expressible(source), indent=2) + "\n")
    (partial / "preprocessor_config.json").write_text(json.dumps(preprocessor_json(source.config), indent=2) + "\n")
    (partial / "dataset_statistics.json").write_text(json.dumps(source.norm_stats, indent=2) + "\n")
    tokenizer = _tokenizer(request, source)
    if tokenizer is not None:
        _copy_tokenizer(tokenizer, partial)
    groups: list[list[str]] = [[]]
    size = 0
    for name, (dtype, shape) in source.shapes.items():
        count = torch.Size(shape).numel() * dtype.itemsize
        if groups[-1] and size + count > SHARD_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(name)
        size += count
    files = ["model.safetensors"]
    if len(groups) > 1:
        files = [f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)]
        weight_map = {name: file for file, names in zip(files, groups, strict=True) for name in names}
        index = {"metadata": {"total_size": source.bytes}, "weight_map": dict(sorted(weight_map.items()))}
        (partial / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for file, names in zip(files, groups, strict=True):
        _write(partial / file, source, names)
    remarks = [
        "OpenVLA's own code reads this directory (prismatic/extern/hf, pinned to transformers 4.40); it does not travel along."
    ]
    return {"notes": remarks + _without_tokenizer(tokenizer)}


def _write_prismatic(request: Request, source: Openvla, partial: Path) -> dict[str, Any]:
    base = next(
        (
            name
            for name, told in BASE_VLMS.items()
            if openvla_config(told, action_dim=source.config.action_dim) == source.config
        ),
        None,
    )
    if base is None:
        raise UserError(
            f"{source.name}: native runs name their architecture, and this one has no name there. Known are {', '.join(BASE_VLMS)}."
        )
    (partial / "config.json").write_text(json.dumps({"vla": {"base_vlm": base}}, indent=2) + "\n")
    (partial / "dataset_statistics.json").write_text(json.dumps(source.norm_stats, indent=2) + "\n")
    fused = len(source.config.vision) == 2
    model: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for name in source.shapes:
        part, _, rest = _native(name, fused=fused).partition(".")
        model[part][rest] = source.read(name)
    (partial / "checkpoints").mkdir()
    torch.save({"model": model}, partial / "checkpoints" / "latest-checkpoint.pt")
    return {
        "notes": [
            "load_vla takes the path of checkpoints/latest-checkpoint.pt.",
            "A .pt file is written at once: memory held all tensors.",
        ]
    }


def _write_plugin(request: Request, source: Openvla, partial: Path) -> dict[str, Any]:
    from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.factory import make_pre_post_processors
    from vla_runtime import lerobot_plugin
    from vla_runtime.modeling.observe import image_size
    from vla_runtime.pack.lerobot import effective_statistics, write_plugin

    missing: list[str] = []
    if set(request.cameras) != {CAMERA} or request.cameras.get(CAMERA) == "none":
        missing.append(f"  --camera {CAMERA}=FEATURE  the dataset's name of the camera")
    if request.crop is None:
        missing.append(
            "  --crop SHARE|none     share of the area that training's random crop kept (0.9 with image augmentation)"
        )
    if request.asset_id is None and len(source.norm_stats) > 1:
        missing.append(f"  --asset-id DATASET    whose statistics: {', '.join(sorted(source.norm_stats)[:8])}")
    if request.tokenizer is None and source.tokenizer is None:
        missing.append("  --tokenizer DIR       directory of Llama 2's tokenizer with OpenVLA's padding token")
    if missing:
        raise UserError("\n".join([f"{source.name} does not say everything that the policy needs. Add:", *missing]))
    dataset = request.asset_id or next(iter(source.norm_stats))
    if dataset not in source.norm_stats:
        raise UserError(f"--asset-id {dataset}: there are statistics of {', '.join(sorted(source.norm_stats))}.")
    tokenizer = _tokenizer(request, source)
    if tokenizer is None:
        raise UserError("--tokenizer hub: the plugin reads its tokenizer from its own directory. Name one.")
    crop = _crop(request.crop or "")
    feature, size = request.cameras[CAMERA], image_size(source.config)
    if not feature.startswith("observation.images."):
        raise UserError(f"--camera {CAMERA}={feature}: LeRobot's image features are named observation.images.NAME.")
    write_plugin(partial / PLUGIN)
    directory = partial / "policy"
    directory.mkdir()
    config = lerobot_plugin.VLAComposedConfig(
        input_features={feature: PolicyFeature(FeatureType.VISUAL, (3, size, size))},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (source.config.action_dim,))},
        device="cpu",
        push_to_hub=False,
        vla=source.config.to_dict(),
        cameras={CAMERA: feature},
        crop=crop,
        n_action_steps=source.config.chunk,
        normalization_mapping={"VISUAL": NormalizationMode.IDENTITY, "ACTION": NormalizationMode.QUANTILES},
    )
    config.save_pretrained(directory)
    kept = dict(source.norm_stats[dataset]["action"])
    mask = kept.pop("mask", None)
    numbers = {name: values for name, values in kept.items() if isinstance(values, list)}
    # As OpenVLA: what never moves comes out as it was.
    recipe = {
        "feature": "action",
        "mode": "quantiles",
        "statistics": numbers,
        "mask": mask,
        "clip": True,
        "constant": "zero",
    }
    statistics = {"action": effective_statistics(recipe, inverse=True)}
    for pipeline in make_pre_post_processors(config, dataset_stats=statistics):
        pipeline.save_pretrained(directory)
    _copy_tokenizer(tokenizer, directory / "tokenizer")
    _write(directory / "model.safetensors", source, list(source.shapes))
    return {
        "cameras": {CAMERA: feature},
        "crop": crop,
        "dataset": dataset,
        "notes": [
            f"Install the policy's code where it is to run: pip install {PLUGIN}. lerobot-eval then takes --policy.path=policy."
        ],
    }


def _crop(given: str) -> float | None:
    if given == "none":
        return None
    try:
        share = float(given)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise UserError(f"--crop {given}: a share between 0 and 1, or none.")
    return share


def _tokenizer(request: Request, source: Openvla) -> Path | None:
    if request.tokenizer is None or request.tokenizer == "hub":
        return source.tokenizer if request.tokenizer is None else None
    directory = Path(request.tokenizer)
    if not (directory / "tokenizer_config.json").is_file():
        raise UserError(f"--tokenizer {directory}: no tokenizer_config.json is there.")
    return directory


def _without_tokenizer(tokenizer: Path | None) -> list[str]:
    return [] if tokenizer is not None else ["No tokenizer travels along; --tokenizer DIR would bring one."]


_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)


def _copy_tokenizer(tokenizer: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in _TOKENIZER_FILES:
        if (tokenizer / name).is_file():
            shutil.copyfile(tokenizer / name, target / name)


def _write(path: Path, source: Openvla, names: list[str]) -> None:
    progress = Progress(len(names), f"tensors of {path.name}")
    with TensorWriter(path, {name: source.shapes[name] for name in names}, {}) as writer:
        for name in names:
            writer.write(name, source.read(name))
            progress.step()


# ------------------------------------------------------------------------------------------------ verifying


def compare_renamed(job: RenamedJob) -> dict[str, Any]:
    """Opens both directories and compares the architecture and every tensor, bit by bit."""
    libraries = resident()
    first = open_openvla(job.source_layout, Path(job.source))
    second = open_openvla(job.target_layout, Path(job.target))
    other = [name for name in first.shapes if first.shapes[name] != second.shapes[name]]
    other += [
        name for name in first.shapes if name not in other and _digest(first.read(name)) != _digest(second.read(name))
    ]
    same = first.config == second.config
    return {
        "agrees": same and not other,
        "summary": f"loaded in a fresh process; {len(first.shapes) - len(other)} of {len(first.shapes)} tensors equal bit by bit, the "
        f"architecture {'equal' if same else 'another one'}",
        "tensors": len(first.shapes),
        "different": other[:20],
        "architectureEqual": same,
        "memoryBytes": {"libraries": libraries, "peak": peak()},
    }


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(tensor):
        digest.update(memoryview(piece.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    yield from tensor.contiguous().reshape(-1).split(16 * 2**20)
