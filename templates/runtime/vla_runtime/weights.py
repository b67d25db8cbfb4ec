"""Weights into a sharded model: drawn from a seed, or read from safetensors, never whole on a process.

Initial values depend on the seed and on names alone, so that they are the same for any number of processes. Files are audited from
their headers before any memory is taken, and each process then reads only its part of each tensor.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

import timm
import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from timm.layers.pos_embed import resample_abs_pos_embed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard
from transformers import PreTrainedModel

from .errors import UserError
from .modeling.composed import ComposedVLA
from .modeling.expert import JointExpert
from .modeling.vision import build_timm, build_transformers
from .partition import Partition, saved_name

_FILES = ["*.safetensors", "*.json", "*.txt", "tokenizer*", "*.model"]  # no pickles


# ---------------------------------------------------------------------- memory


def materialise(model: nn.Module, device: torch.device | None = None) -> None:
    """Gives parameters that are on the meta device memory on `device`, with undefined values. Buffers keep theirs.

    Args:
        model: built on the meta device and sharded; without meta parameters nothing happens.
        device: default: where the mesh of the shards is, else the GPU of this process if there is one, else the CPU.
    """
    parameters = list(model.parameters())
    if not any(parameter.is_meta for parameter in parameters):
        return
    device = device or _device(parameters)
    buffers = [(module, name, buffer) for module in model.modules() for name, buffer in module._buffers.items()]
    places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(parameter, []).append((module, name))
    model.to_empty(device=device)
    for module, name, buffer in buffers:  # to_empty has left rubbish in them
        module._buffers[name] = None if buffer is None else buffer.to(device)
    for (first, name), *others in places.values():  # and has untied what was tied
        for module, other in others:
            module._parameters[other] = first._parameters[name]


def _device(parameters: Sequence[nn.Parameter]) -> torch.device:
    for parameter in parameters:
        if isinstance(parameter, DTensor):
            kind = parameter.device_mesh.device_type
            return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _local(tensor: Tensor) -> tuple[Tensor, tuple[slice, ...]]:
    """This process's part of a tensor, and where it lies in the whole."""
    if not isinstance(tensor, DTensor):
        return tensor.detach(), tuple(slice(0, size) for size in tensor.shape)
    part = [slice(0, size) for size in tensor.shape]
    for axis, placement in enumerate(tensor.placements):
        if type(placement) is Shard:  # as torch.chunk cuts; a subclass cuts otherwise
            whole, world, rank = (
                part[placement.dim],
                tensor.device_mesh.size(axis),
                tensor.device_mesh.get_local_rank(axis),
            )
            rows = -(-(whole.stop - whole.start) // world)
            start = min(whole.start + rank * rows, whole.stop)
            part[placement.dim] = slice(start, min(start + rows, whole.stop))
        elif not placement.is_replicate():
            raise RuntimeError(f"Parameters placed as {placement} cannot be filled.")
    return cast(DTensor, tensor.detach()).to_local(), tuple(part)


@torch.no_grad()
def _fill(tensor: Tensor, whole: Tensor) -> None:
    local, part = _local(tensor)
    if local.numel():
        local.copy_(whole[part])


# ---------------------------------------------------------------------- initial values


@torch.no_grad()
def initialise(
    model: ComposedVLA,
    partition: Partition,
    *,
    seed: int,
    loaded: Sequence["WeightAudit"] = (),
    device: torch.device | None = None,
) -> None:
    """Gives every parameter its first value, by the rule of its own library, in place on every process without communication.

    Values are drawn on the CPU in fp32 from a generator seeded by (seed, name) and each process keeps its part, so that they do not
    depend on the number of processes, the sharding or the device. Memory at any time: one tower, one block of the language model or
    one layer of the rest, whole and in fp32 (OpenVLA: SigLIP's 1.7 GB; a block of Llama-2-7B is 0.8 GB).

    Adapters are left to `Adapters.initialise`.

    Args:
        model: sharded or not, on the meta device or not.
        partition: of this model; its modules decide nothing here but that every parameter is known.
        seed: of the run.
        loaded: audits whose parameters are not drawn, since `load` fills them.
        device: see `materialise`.
    """
    materialise(model, device)
    skip = {name for audit in loaded for name in audit.names}
    targets = {
        name: parameter
        for name, parameter in ((saved_name(name), parameter) for name, parameter in model.named_parameters())
        if name is not None and name not in skip
    }
    unknown = sorted(set(targets) - {name for module in partition.modules for name in partition.names(module)})
    if unknown:
        raise RuntimeError(f"{unknown[0]} was added after the partition was made.")
    filled: set[str] = set()

    def take(values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name in targets:
                _fill(targets[name], value)
                filled.add(name)

    with torch.random.fork_rng(devices=[]):
        for part in _parts(model):
            if any(name in targets for name in part.names):
                torch.manual_seed(_seed(seed, part.name))
                take(part.draw())
    left = sorted(set(targets) - filled)
    if left:
        raise RuntimeError(f"No rule initialises {', '.join(left[:5])}{' ...' if len(left) > 5 else ''}.")


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class _Part:
    """What is drawn in one go: a name, the saved names of its parameters, and how they are drawn."""

    name: str
    names: frozenset[str]
    draw: Callable[[], dict[str, Tensor]]


def _parts(model: ComposedVLA) -> Iterator[_Part]:
    """The model in pieces small enough to stand whole in memory."""
    for index, tower in enumerate(model.config.vision):
        # timm's and transformers' vision models initialise children from their parents, so a tower is built whole.
        name = f"vision_backbone.{model.vision_backbone.tower_name(index)}"
        build = build_timm if tower["source"] == "timm" else build_transformers
        yield _Part(name, _names(model, name), lambda b=build, t=tower, n=name: _tower(b, t, n))
    base = model.language_model.base
    prefix = f"language_model.{model.language_model.base_name}"
    for name in _subtrees(base, prefix):
        yield _subtree(model, name, base)
    if model.language_model.lm_head is not None and not model.language_model.tied:
        yield _subtree(model, "language_model.lm_head", base)
    expert = "action_head.transformer"
    if model.config.joint:
        transformer = cast(JointExpert, model.action_head).transformer
        for name in _subtrees(transformer, expert):
            yield _subtree(model, name, transformer)
    for child in ("projector", "state_projector", "action_head"):
        root = getattr(model, child)
        for name, module in [] if root is None else root.named_modules():
            full = saved_name(f"{child}.{name}." if name else f"{child}.")
            drawn = model.config.joint and full is not None and full.startswith(f"{expert}.")
            if full is not None and not drawn and any(p is not None for p in module._parameters.values()):
                yield _leaf(full.rstrip("."), module)


def _names(model: nn.Module, prefix: str) -> frozenset[str]:
    names = (saved_name(name) for name, _ in model.named_parameters())
    return frozenset(name for name in names if name is not None and f"{name}.".startswith(f"{prefix}."))


def _tower(build: Callable[[dict], nn.Module], tower: dict, prefix: str) -> dict[str, Tensor]:
    with torch.device("cpu"):
        model = build(tower)
    return {f"{prefix}.{name}": parameter.detach() for name, parameter in model.named_parameters()}


def _subtrees(base: nn.Module, prefix: str) -> list[str]:
    """Each block, and each other child, of a transformers model."""
    names = []
    for name, child in base.named_children():
        if isinstance(child, nn.ModuleList):
            names += [f"{prefix}.{name}.{index}" for index in range(len(child))]
        else:
            names.append(f"{prefix}.{name}")
    if any(parameter is not None for parameter in base._parameters.values()):
        raise RuntimeError(f"{type(base).__name__} holds parameters of its own; no rule initialises them.")
    return names


def _subtree(model: nn.Module, name: str, base: PreTrainedModel) -> _Part:
    root = model.get_submodule(name)

    def draw() -> dict[str, Tensor]:
        modules = [(path, module) for path, module in root.named_modules() if ".lora_" not in f".{path}"]
        with _on_cpu(module for _, module in modules) as values:
            for _, module in reversed(modules):  # children before parents, as transformers does
                base._init_weights(module)
        return {
            full: values[module, own]
            for path, module in modules
            for own in module._parameters
            if (module, own) in values
            if (full := saved_name(".".join(filter(None, (name, path, own))))) is not None
        }

    return _Part(name, _names(model, name), draw)


def _leaf(name: str, module: nn.Module) -> _Part:
    own = [key for key, parameter in module._parameters.items() if parameter is not None]

    def draw() -> dict[str, Tensor]:
        reset = getattr(module, "reset_parameters", None)
        if not callable(reset):
            raise RuntimeError(f"{name} ({type(module).__name__}) has no reset_parameters, so no rule initialises it.")
        with _on_cpu([module]) as values:
            reset()
        return {f"{name}.{key}": values[module, key] for key in own}

    return _Part(name, frozenset(f"{name}.{key}" for key in own), draw)


@contextlib.contextmanager
def _on_cpu(modules: Iterable[nn.Module]) -> Iterator[dict[tuple[nn.Module, str], nn.Parameter]]:
    """Within: the modules' parameters stand whole on the CPU in fp32. Behind: the modules are as before."""
    saved: list[tuple[nn.Module, str, nn.Parameter]] = []
    values: dict[tuple[nn.Module, str], nn.Parameter] = {}
    try:
        for module in modules:
            for name, parameter in module._parameters.items():
                if parameter is None:
                    continue
                saved.append((module, name, parameter))
                values[module, name] = nn.Parameter(
                    torch.empty(parameter.shape, dtype=torch.float32), requires_grad=False
                )
                module._parameters[name] = values[module, name]
        yield values
    finally:
        for module, name, parameter in saved:
            module._parameters[name] = parameter


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Entry:
    """A tensor in a file."""

    file: Path
    key: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Wanted:
    """Where a tensor of the model comes from. `how`: read as it is, resampled to another grid, only the first rows, or transposed."""

    entry: _Entry
    how: Literal["same", "resampled", "first rows", "transposed"]
    prefix: int = 0  # rows of a position embedding that belong to no patch


class WeightAudit:
    """Every tensor of a model (or of a part of it) accounted for in safetensors files, before memory is taken.

    Args:
        source: directory, file, or hub id.
        revision: of the hub id; not for local paths.
        model: on the meta device or not, sharded or not.
        part: name of the submodule for which the weights are: `language_model` from a causal LM's directory, or a tower such as
            `vision_backbone.featurizer` from a timm or transformers directory; empty for the whole model, whose files have exactly
            the model's names (OpenVLA's layout is such a one).
        allow_missing: fnmatch patterns of the model's names that the files need not hold; `initialise` fills them.
        allow_unexpected: fnmatch patterns of the files' names that are left aside.
        rename: from the beginning of a name in the files to its beginning in the model's (part's) names.

    Raises:
        UserError: listing names that are missing, unexpected or of another shape; a file that is cut off, is no safetensors, or
            is not there.

    Attributes:
        names: the model's names whose every value comes from the files.
    """

    def __init__(
        self,
        source: str,
        revision: str | None,
        model: nn.Module,
        *,
        part: str = "",
        allow_missing: Sequence[str] = (),
        allow_unexpected: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> None:
        self.source, self.part = source, part
        self.directory = locate(source, revision)
        entries = self._entries()
        wanted = _tensors(model, part)
        layout = self._layout(model, part)
        available: dict[str, _Entry] = {}
        for key, entry in entries.items():
            name = layout.name(_renamed(key, rename or {}), wanted)
            if name in available:
                raise UserError(f"{self._where()}: {available[name].key} and {key} both are {name}.")
            available[name] = entry
        self._plan: dict[str, _Wanted] = {}
        missing, shapes = [], []
        for name, tensor in wanted.items():
            entry = available.get(name) or available.get(layout.stand_in(name))
            full = f"{part}.{name}" if part else name
            if entry is None:
                if not layout.may_miss(name) and not _any(full, allow_missing):
                    missing.append(full)
            elif layout.transposes(entry.key) and entry.shape[::-1] == tuple(tensor.shape):
                self._plan[full] = _Wanted(entry, "transposed")
            elif entry.shape == tuple(tensor.shape):
                self._plan[full] = _Wanted(entry, "same")
            elif how := layout.adapts(name, entry.shape, tuple(tensor.shape)):
                self._plan[full] = _Wanted(entry, how, layout.prefix)
            else:
                shapes.append(f"{full}: the file has {list(entry.shape)}, the model {list(tensor.shape)}")
        unexpected = [
            entry.key
            for name, entry in available.items()
            if name not in wanted and not layout.may_surplus(name) and not _any(entry.key, allow_unexpected)
        ]
        self._complain(missing, unexpected, shapes)
        self.names = frozenset(name for name, wanted in self._plan.items() if wanted.how != "first rows")

    def _entries(self) -> dict[str, _Entry]:
        """The tensors of the files."""
        return read_headers(self.directory)

    def _layout(self, model: nn.Module, part: str) -> "Layout":
        """What names in the files mean for the model."""
        return _ComposedLayout(cast(ComposedVLA, model), part)

    def _where(self) -> str:
        return f"The weights {self.source}" + (f" for {self.part}" if self.part else "")

    def _complain(self, missing: Sequence[str], unexpected: Sequence[str], shapes: Sequence[str]) -> None:
        if not (missing or unexpected or shapes):
            return
        lines = [f"{self._where()} ({self.directory}) do not fit the model."]
        for title, names in (("missing", missing), ("not in the model", unexpected), ("other shape", shapes)):
            if names:
                lines.append(f"  {title} ({len(names)}):")
                lines += [f"    {name}" for name in names[:20]]
                lines += [f"    and {len(names) - 20} more"] if len(names) > 20 else []
        lines.append(
            "Nothing was loaded. Use weights of this architecture, or change the architecture in pipeline.ts to theirs."
        )
        raise UserError("\n".join(lines))

    @torch.no_grad()
    def load(self, model: nn.Module, device: torch.device | None = None) -> None:
        """Fills the model, each process reading only its part of each tensor. Files are read in order, each once.

        Args:
            model: the audited one, sharded by now. If it is on the meta device it gets memory first.
            device: see `materialise`.

        Raises:
            UserError: the model has parameters that neither these files nor `initialise` give a value.
        """
        if any(parameter.is_meta for parameter in model.parameters()):
            drawn = {name for name, _ in model.named_parameters() if saved_name(name) is not None}
            left = sorted({saved_name(name) or name for name in drawn} - self.names)
            if left:
                raise RuntimeError(
                    f"{left[0]} has no value: call initialise(model, partition, seed=..., loaded=[weights]) first."
                )
            materialise(model, device)
        tensors = _tensors(model, "")
        by_file: dict[Path, list[str]] = {}
        for name, wanted in self._plan.items():
            by_file.setdefault(wanted.entry.file, []).append(name)
        for file, names in by_file.items():
            with safe_open(file, framework="pt", device="cpu") as reader:
                for name in names:
                    self._copy(reader, self._plan[name], tensors[name])

    @staticmethod
    def _copy(reader: Any, wanted: _Wanted, tensor: Tensor) -> None:
        entry = wanted.entry
        if wanted.how == "resampled":
            before = wanted.prefix
            grid = int((tensor.shape[1] - before) ** 0.5)
            resample = cast(Callable[..., Tensor], resample_abs_pos_embed)
            _fill(tensor, resample(reader.get_tensor(entry.key), [grid, grid], num_prefix_tokens=before))
            return
        if wanted.how == "transposed":
            _fill(tensor, reader.get_tensor(entry.key).T)
            return
        local, part = _local(tensor)
        if wanted.how == "first rows":
            rows = max(0, min(part[0].stop, entry.shape[0]) - part[0].start)
            local, part = local[:rows], (slice(part[0].start, part[0].start + rows), *part[1:])
        if not local.numel():
            return
        view = reader.get_slice(entry.key)
        local.copy_(view[part] if part else reader.get_tensor(entry.key))


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _renamed(key: str, rename: Mapping[str, str]) -> str:
    for old, new in rename.items():
        if key.startswith(old):
            return new + key.removeprefix(old)
    return key


def _tensors(model: nn.Module, part: str) -> dict[str, Tensor]:
    """Saved names within `part` of its parameters and saved buffers, adapters excluded."""
    prefix = f"{part}." if part else ""
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        saved = saved_name(name)
        if saved is not None and saved.startswith(prefix):
            tensors[saved.removeprefix(prefix)] = tensor
    if not tensors:
        raise UserError(f"The model has no part {part!r}.")
    return tensors


class Layout:
    """What names in files mean for a model: here, that every name is the model's own."""

    prefix = 0

    def name(self, key: str, wanted: Mapping[str, Tensor]) -> str:
        """The model's name of a key in the files."""
        return key

    def stand_in(self, name: str) -> str:
        """The name of another tensor of the files that is read where the named one is not there; empty for none."""
        return ""

    def transposes(self, key: str) -> bool:
        """Whether the files hold the transpose of the model's tensor under this key."""
        return False

    def may_miss(self, name: str) -> bool:
        """Whether the files may lack it."""
        return False

    def may_surplus(self, name: str) -> bool:
        """Whether the files may hold it though the model has no place for it."""
        return False

    def adapts(
        self, name: str, file: tuple[int, ...], model: tuple[int, ...]
    ) -> Literal["resampled", "first rows"] | None:
        """Whether a tensor of another shape can be read, and how."""
        return None


class _ComposedLayout(Layout):
    """What names in foreign files mean for a part of a composed VLA."""

    def __init__(self, model: ComposedVLA, part: str) -> None:
        self.tied = model.language_model.tied and part in ("", "language_model")
        self.head = f"{'language_model.' if not part else ''}lm_head.weight"
        self.spare = model.config.language.get("spare_tokens", 0) if part == "language_model" else 0
        self.language = part == "language_model"
        self.base = f"{model.language_model.base_name}."
        names = [model.vision_backbone.tower_name(index) for index in range(len(model.config.vision))]
        self.tower = next(
            (
                tower
                for name, tower in zip(names, model.config.vision, strict=True)
                if part == f"vision_backbone.{name}"
            ),
            None,
        )
        self.timm = self.tower is not None and self.tower["source"] == "timm"
        self.surplus: set[str] = set()
        self.prefix = 0
        if self.tower is not None and self.timm:
            with torch.device("meta"):  # what the whole published network holds beyond the layers that the tower keeps
                options = self.tower.get("options") or {}
                whole = timm.create_model(self.tower["name"], pretrained=False, **options)
            self.surplus = set(whole.state_dict())
            if not getattr(whole, "no_embed_class", False):
                self.prefix = getattr(whole, "num_prefix_tokens", 0)

    def name(self, key: str, wanted: Mapping[str, Tensor]) -> str:
        """The model's name of a key in the files."""
        if self.tower is None:
            if self.language and key not in wanted and self.base + key in wanted:
                return self.base + key  # a directory of the model without its output embedding
            return key
        if self.timm:
            scale = key.removesuffix(".gamma") + ".scale_factor"
            if scale in wanted:
                return scale
            head, _, tail = key.partition(".")  # features_only flattens `stages.0` to `stages_0`
            index, _, rest = tail.partition(".")
            flat = f"{head}_{index}.{rest}"
            return flat if flat in wanted else key
        if key not in wanted:
            for candidate in (f"vision_model.{key}", key.partition(".")[2]):
                if candidate in wanted:
                    return candidate
        return key

    def may_miss(self, name: str) -> bool:
        """Whether the files may lack it: an output embedding that is the input embedding."""
        return self.tied and name == self.head

    def may_surplus(self, name: str) -> bool:
        """Whether the files may hold it though the part has no place for it."""
        if name.endswith("rotary_emb.inv_freq"):
            return True
        if self.tower is not None and self.timm:
            return name in self.surplus
        if self.tower is not None:  # the text half of a two-tower model, and what belongs to neither
            return name.startswith(("text_model.", "text_projection", "visual_projection", "logit_", "classifier."))
        return self.language and name == "lm_head.weight"

    def adapts(
        self, name: str, file: tuple[int, ...], model: tuple[int, ...]
    ) -> Literal["resampled", "first rows"] | None:
        """Whether a tensor of another shape can be read, and how."""
        if self.timm and name == "pos_embed" and len(file) == 3 and file[2] == model[2]:
            return "resampled" if _square(file[1] - self.prefix) and _square(model[1] - self.prefix) else None
        rows = self.spare and file[1:] == model[1:] and file[0] + self.spare == model[0]
        return "first rows" if rows and name.endswith(("embed_tokens.weight", "wte.weight", "lm_head.weight")) else None


def _square(number: int) -> bool:
    return number > 0 and math.isqrt(number) ** 2 == number


def read_headers(path: Path) -> dict[str, _Entry]:
    """The tensors of a safetensors file, or of all files of a directory (its index where there is one), from the headers alone.

    Raises:
        UserError: no safetensors, a file that the index names is not there, a file that is cut off or is no safetensors, an index
            that disagrees with the files.
    """
    files = [path] if path.is_file() else _files(path)
    entries: dict[str, _Entry] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt", device="cpu") as reader:
                for key in reader.keys():
                    if key in entries:
                        raise UserError(
                            f"{key} is in {entries[key].file} and in {file}. One of them is left over: delete it."
                        )
                    entries[key] = _Entry(file, key, tuple(reader.get_slice(key).get_shape()))
        except SafetensorError as error:
            raise UserError(
                f"{file} is cut off or is no safetensors file ({error}; {file.stat().st_size} bytes). Fetch or write it again."
            ) from error
    index = path / "model.safetensors.index.json"
    if path.is_dir() and index.is_file():
        expected = set(_weight_map(index))
        if difference := sorted(expected ^ set(entries)):
            raise UserError(f"{index} and the files beside it disagree about {', '.join(difference[:5])}.")
    return entries


def _files(directory: Path) -> list[Path]:
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        files = sorted({directory / name for name in _weight_map(index).values()})
        absent = [file.name for file in files if not file.is_file()]
        if absent:
            raise UserError(
                f"{directory} lacks {', '.join(absent)}, which {index.name} names. Fetch the directory again."
            )
        return files
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        pickles = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in directory.glob(pattern))
        because = f" ({', '.join(pickles[:3])} can run code when read: convert to safetensors)" if pickles else ""
        raise UserError(f"{directory} holds no *.safetensors{because}.")
    return files


def _weight_map(index: Path) -> dict[str, str]:
    try:
        return json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (json.JSONDecodeError, KeyError, UnicodeDecodeError) as error:
        raise UserError(f"{index} is no index of safetensors files ({error!r}). Fetch it again.") from error


def locate(source: str, revision: str | None) -> Path:
    """The directory or file that `source` names: a local path, or a hub id, from the hub's local cache or fetched into it.

    Raises:
        UserError: neither there nor to be had.
    """
    path = Path(source).expanduser()
    if path.exists():
        if revision is not None:
            raise UserError(f"{source} is a local path, which has no revision ({revision}). Drop the revision.")
        return path
    if source.startswith((".", "/", "~")) or source.count("/") != 1:
        raise UserError(f"There is no file or directory {source}, and it is no hub id (owner/name).")
    command = f"hf download {source}" + (f" --revision {revision}" if revision else "")
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=_FILES, local_files_only=True))
    except (LocalEntryNotFoundError, FileNotFoundError):
        pass
    where = f"{source}" + (f" at revision {revision}" if revision else "")
    if os.environ.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on"):
        raise UserError(
            f"{where} is neither a local path nor in the hub's cache, and HF_HUB_OFFLINE forbids to fetch it. "
            f"On a machine with network: {command}"
        )
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=_FILES))
    except GatedRepoError as error:
        raise UserError(f"{where} is gated: accept its terms on the hub and set HF_TOKEN, then: {command}") from error
    except (RepositoryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UserError(
            f"{where} is no local path, and fetching it from the hub failed: {error}. Try: {command}"
        ) from error


# ---------------------------------------------------------------------- writing


def write_weights(
    directory: Path,
    tensors: Iterable[tuple[str, Tensor]],
    *,
    shard_bytes: int = 5_000_000_000,
    metadata: Mapping[str, str] | None = None,
) -> list[Path]:
    """Writes tensors as `model.safetensors`, or as numbered files with `model.safetensors.index.json` beyond `shard_bytes`.

    Tensors are taken one by one and written as soon as a file is full, so that memory holds one file's worth.

    Args:
        directory: exists.
        tensors: in the order of the files; whole, each with memory of its own or copied here.
        shard_bytes: largest size of a file, unless a single tensor is larger.
        metadata: for the headers, beside `format: pt`.

    Returns:
        The files, in order.
    """
    header = {"format": "pt", **(metadata or {})}
    files: list[Path] = []
    weight_map: dict[str, int] = {}
    pending: dict[str, Tensor] = {}
    size = total = 0

    def flush() -> None:
        file = directory / f".model-{len(files) + 1:05d}.safetensors"
        save_file(pending, file, metadata=header)
        weight_map.update(dict.fromkeys(pending, len(files)))
        files.append(file)
        pending.clear()

    for name, tensor in tensors:
        tensor = tensor.detach().cpu().contiguous()
        if tensor.untyped_storage().nbytes() != tensor.nbytes:
            tensor = tensor.clone()  # a view of padded or shared storage would be written whole
        if pending and size + tensor.nbytes > shard_bytes:
            flush()
            size = 0
        pending[name] = tensor
        size += tensor.nbytes
        total += tensor.nbytes
    flush()
    if len(files) == 1:
        names = ["model.safetensors"]
    else:
        names = [f"model-{index:05d}-of-{len(files):05d}.safetensors" for index in range(1, len(files) + 1)]
        index_text = {
            "metadata": {"total_size": total},
            "weight_map": {name: names[number] for name, number in sorted(weight_map.items())},
        }
        (directory / "model.safetensors.index.json").write_text(
            json.dumps(index_text, indent=2) + "\n", encoding="utf-8"
        )
    return [file.rename(directory / name) for file, name in zip(files, names, strict=True)]
