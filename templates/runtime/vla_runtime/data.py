"""LeRobot datasets as batches of a run: the same global order for any number of ranks, micro-batches and loader workers.

A run has one global sample counter. Sample number `g` belongs to update `g // global_batch` at position `g % global_batch`; which frame
it is, and every random number that it needs, follow from (seed, g) alone. So resuming needs one integer, and no two ranks share a sample.
"""

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from .augment import Augmentation, augment
from .errors import UserError
from .mesh import global_sum
from .modeling.batch import Batch
from .modeling.composed import ComposedVLA, VLAConfig
from .modeling.images import evaluation_view
from .modeling.normalize import normalizer
from .modeling.observe import image_size, prompt_tokenizer
from .modeling.tokenization import PromptTokenizer

if TYPE_CHECKING:
    from .run import Run

# Streams of random numbers: a number each, so that no two uses of (seed, update, position) meet.
ORDER, NOISE, AUGMENT, FIXED_NOISE = 1, 2, 3, 4
Mode = Literal["meanStd", "minMax", "quantiles", "identity"]
Constant = Literal["refuse", "pass", "zero"]
STATISTICS = ("mean", "std", "min", "max", "q01", "q99")
FIXED = (
    -1
)  # stands for the update in keys of samples that are not trained on: evaluation's view, noise that never changes
GOLDEN = 0.6180339887498949  # fractional part of the golden ratio: spreads a mixture evenly over any stretch of samples
REFERENCE_SAMPLES = 4
RECOMPUTE = "Recompute them: `lerobot-edit-dataset --operation.type recompute_stats`."
QUANTILES = "Add quantiles (`python -m lerobot.scripts.augment_dataset_quantile_stats`), or choose normalize 'meanStd' or 'minMax'."


@dataclass(frozen=True)
class Dataset:
    """One LeRobot v3 dataset of a run.

    name: key of its statistics in checkpoints and packages.
    cameras: the model's camera -> the dataset's image feature.
    state, action: features; `state=None` where the model has no proprioception.
    root, repo, revision: where it lies; a repo without root is looked up in LeRobot's cache or on the hub.
    weight: share of the mixture, relative to the other datasets.
    episodes: those that are used; None: all.
    holdout: episodes among them that are never trained on and have their own loss.
    """

    name: str
    cameras: Mapping[str, str]
    state: str | None
    action: str
    root: str | None = None
    repo: str | None = None
    revision: str | None = None
    weight: float = 1.0
    episodes: Sequence[int] | None = None
    holdout: Sequence[int] = ()


@dataclass
class Reference:
    """Raw inputs with which every package is compared, and the batch that the trainer makes of them.

    images: camera -> uint8 [B, 3, H, W] as the dataset has them; state: [B, S] in the dataset's units, or None;
    noise: [B, C, A] for flow matching, or None.
    """

    images: dict[str, Tensor]
    instructions: list[str]
    state: Tensor | None
    noise: Tensor | None
    datasets: list[str]
    batch: Batch


def lerobot_samples(
    datasets: Sequence[Dataset],
    *,
    config: VLAConfig,
    run: "Run",
    mesh: DeviceMesh,
    normalize_state: Mode,
    normalize_action: Mode,
    constant: Constant,
    action_mask: list[bool] | None,
    clip: bool,
    global_batch: int,
    micro_batch: int,
    seed: int,
    augmentation: Augmentation | None = None,
    workers: int = 0,
) -> "Samples":
    """Opens the datasets of a run.

    Args:
        config: what the model wants: cameras, widths, chunk, prompt, image size.
        constant: what to do with a dimension that does not vary: stop, leave it as it is, or map it to 0.
        action_mask: False where an action dimension passes unnormalised; None: all are normalised.
        clip: clip normalised actions and states to [-1, 1].
        global_batch, micro_batch: samples per update over all ranks, and per forward on one rank.
        workers: loader processes of this rank; 0 loads in the training process.

    Raises:
        UserError: a dataset, feature, width or statistic is not as declared.
    """
    with run.local_rank_first():  # one download and one cache per node
        sources = [_Source(spec, config) for spec in datasets]
    recipes: dict[str, dict[str, Any]] = {}
    for source in sources:
        spec = source.spec
        recipes[spec.name] = {
            "action": source.normalization(spec.action, normalize_action, constant, action_mask, clip)
        }
        if spec.state is not None:
            recipes[spec.name]["state"] = source.normalization(spec.state, normalize_state, constant, None, clip)
    return Samples(sources, config, recipes, run.device, mesh, global_batch, micro_batch, seed, augmentation, workers)


class Samples:
    """The samples of a run. `next_update` hands out the batches of the next update; `state` is one number."""

    def __init__(
        self,
        sources: list["_Source"],
        config: VLAConfig,
        normalization: dict[str, dict[str, Any]],
        device: torch.device,
        mesh: DeviceMesh,
        global_batch: int,
        micro_batch: int,
        seed: int,
        augmentation: Augmentation | None,
        workers: int,
    ) -> None:
        self.normalization = normalization  # dataset -> "state" / "action" -> the arguments of `normalizer`; JSON
        self.config = config
        self.device = device
        self.mesh = mesh
        self.global_batch = global_batch
        self.micro_batch = micro_batch
        self.samples = 0  # the global sample counter
        self._sources = sources
        self._workers = workers
        self._rank, self._world = mesh.get_rank(), mesh.size()
        self._order = _Order(seed, [source.training for source in sources], [source.spec.weight for source in sources])
        self._view = _View(sources, config, normalization, seed, augmentation)
        self._batches: Iterator[Batch] | None = None

    def next_update(self, accumulation: int) -> list[Batch]:
        """The micro-batches of this rank for the next update, on the device.

        Raises:
            ValueError: accumulation x micro-batch x ranks is not the global batch.
        """
        if accumulation * self.micro_batch * self._world != self.global_batch:
            raise ValueError(
                f"{accumulation} x {self.micro_batch} x {self._world} ranks is not the global batch {self.global_batch}"
            )
        if self._batches is None:
            self._batches = iter(
                self._loader(
                    _Keys(self._order, self.samples, self.global_batch, self.micro_batch, self._rank, self._world)
                )
            )
        batches = [next(self._batches).to(self.device) for _ in range(accumulation)]
        self.samples += self.global_batch
        return batches

    def state(self) -> dict[str, int]:
        """The position in the global order: samples handed out to all ranks together."""
        return {"samples": self.samples}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Continues after that many samples, whatever the number of ranks was."""
        self.samples = int(state["samples"])
        self._batches = None

    def holdout(self) -> Iterator[Batch]:
        """The held-out frames, each once over all ranks, in evaluation's view and with fixed noise.

        Every rank gets the same number of batches: what is missing at the end is filled with samples that do not count.
        """
        keys = [
            (FIXED, i, source_index, frame)
            for source_index, source in enumerate(self._sources)
            for i, frame in enumerate(source.held_out)
        ]
        step = self.micro_batch * self._world
        for start in range(0, len(keys), step):
            block = keys[start : start + step]
            mine = block[self._rank * self.micro_batch : (self._rank + 1) * self.micro_batch]
            missing = self.micro_batch - len(mine)
            batch = self._view.collate([self._view[key] for key in mine + [keys[0]] * missing])
            if missing and batch.valid is not None:
                batch.valid[len(mine) :] = False
            yield batch.to(self.device)

    def reference_batch(self) -> Reference:
        """Four fixed samples, held-out ones where there are any, as raw inputs and as the trainer's batch."""
        keys = [
            (source_index, frame)
            for source_index, source in enumerate(self._sources)
            for frame in (source.held_out or source.training)
        ]
        chosen = [keys[round(i)] for i in np.linspace(0, len(keys) - 1, REFERENCE_SAMPLES)]
        batch = self._view.collate([self._view[(FIXED, i, *key)] for i, key in enumerate(chosen)])
        raw = [(self._sources[index], frame) for index, frame in chosen]
        return Reference(
            images={
                camera: torch.stack([source.image(camera, frame) for source, frame in raw])
                for camera in self.config.cameras
            },
            instructions=[source.instruction(frame) for source, frame in raw],
            state=torch.stack([source.state(frame) for source, frame in raw]) if self.config.state_dim else None,
            noise=batch.noise,
            datasets=batch.dataset,
            batch=batch.to(self.device),
        )

    def denormalize(self, actions: Tensor, datasets: Sequence[str]) -> Tensor:
        """Actions of the model [B, C, A] back in each dataset's own units."""
        return torch.stack(
            [self._view.normalizers[name]["action"].inverse(row) for row, name in zip(actions, datasets, strict=True)]
        )

    def _loader(self, keys: "_Keys") -> DataLoader[Any]:
        return DataLoader(
            self._view,
            batch_sampler=keys,
            num_workers=self._workers,
            collate_fn=self._view.collate,
            multiprocessing_context="spawn"
            if self._workers
            else None,  # forked workers inherit the process group's threads
            persistent_workers=False,
            worker_init_fn=_leave_stopping_to_the_run,
            generator=torch.Generator(),  # else opening a loader draws from the global one, and a resumed run drops out otherwise
        )


def _leave_stopping_to_the_run(_worker: int) -> None:
    """torchrun passes signals to whole process groups; the run still needs its samples to end the present update."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def holdout_loss(model: ComposedVLA, data: Samples, mesh: DeviceMesh) -> float:
    """Mean loss per valid element over the held-out episodes; every rank takes part and gets the same number."""
    was_training = model.training
    model.eval()
    total, valid = (
        torch.zeros((), dtype=torch.float64, device=data.device),
        torch.zeros((), dtype=torch.float64, device=data.device),
    )
    with torch.no_grad():
        for batch in data.holdout():
            total += model(batch).sum().to(torch.float64)
            valid += model.valid_count(batch).to(torch.float64)
    model.train(was_training)
    return float(global_sum(total, mesh) / global_sum(valid, mesh))


Key = tuple[int, int, int, int]  # (update or FIXED, position in the global batch, dataset, frame)


class _Order:
    """Which frame is global sample number g: a fresh permutation of each dataset per epoch, datasets interleaved by weight."""

    def __init__(self, seed: int, frames: Sequence[Sequence[int]], weights: Sequence[float]) -> None:
        self._seed = seed
        self._frames = [np.asarray(f, dtype=np.int64) for f in frames]
        edges = np.cumsum(np.asarray(weights, dtype=np.float64))
        self._edges = edges / edges[-1]
        self._permutations: dict[int, tuple[int, np.ndarray]] = {}

    def counts(self, samples: int) -> np.ndarray:
        """How many of the first `samples` samples each dataset gave."""
        if len(self._frames) == 1:
            return np.asarray([samples], dtype=np.int64)
        counts = np.zeros(len(self._frames), dtype=np.int64)
        for start in range(0, samples, 1 << 20):
            counts += np.bincount(self._choose(start, min(start + (1 << 20), samples)), minlength=len(counts))
        return counts

    def block(self, start: int, stop: int, counts: np.ndarray) -> list[tuple[int, int]]:
        """(dataset, frame) of samples start .. stop-1; `counts` is advanced in place."""
        block = []
        for source in self._choose(start, stop):
            epoch, offset = divmod(int(counts[source]), len(self._frames[source]))
            block.append((int(source), int(self._frames[source][self._permutation(int(source), epoch)[offset]])))
            counts[source] += 1
        return block

    def _choose(self, start: int, stop: int) -> np.ndarray:
        if len(self._frames) == 1:
            return np.zeros(stop - start, dtype=np.int64)
        spread = np.mod(np.arange(start, stop, dtype=np.float64) * GOLDEN, 1.0)
        return np.minimum(np.searchsorted(self._edges, spread, side="right"), len(self._frames) - 1)

    def _permutation(self, source: int, epoch: int) -> np.ndarray:
        cached = self._permutations.get(source)
        if cached is None or cached[0] != epoch:
            cached = (
                epoch,
                np.random.default_rng([self._seed, ORDER, source, epoch]).permutation(len(self._frames[source])),
            )
            self._permutations[source] = cached
        return cached[1]


class _Keys:
    """This rank's share of the global order, a list of keys per micro-batch, without end."""

    def __init__(self, order: _Order, samples: int, global_batch: int, micro_batch: int, rank: int, world: int) -> None:
        self._order, self._samples, self._global, self._micro, self._rank, self._world = (
            order,
            samples,
            global_batch,
            micro_batch,
            rank,
            world,
        )

    def __iter__(self) -> Iterator[list[Key]]:
        counts = self._order.counts(self._samples)
        update = self._samples // self._global
        while True:
            start = update * self._global
            block = self._order.block(start, start + self._global, counts)
            for first in range(self._rank * self._micro, self._global, self._micro * self._world):
                yield [(update, position, *block[position]) for position in range(first, first + self._micro)]
            update += 1


@dataclass
class _Sample:
    images: dict[str, Tensor]
    instruction: str
    state: Tensor | None
    actions: Tensor
    valid: Tensor
    noise: Tensor | None
    time: float | None
    position: int
    dataset: str


class _View(TorchDataset[_Sample]):
    """Frames as the model wants them: windows of actions, normalised, augmented, tokenised. Picklable for loader workers."""

    def __init__(
        self,
        sources: list["_Source"],
        config: VLAConfig,
        normalization: dict[str, dict[str, Any]],
        seed: int,
        augmentation: Augmentation | None,
    ) -> None:
        self._sources, self._config, self._seed, self._augmentation = sources, config, seed, augmentation
        self.normalizers = {
            name: {role: normalizer(**recipe) for role, recipe in roles.items()}
            for name, roles in normalization.items()
        }
        self._size = image_size(config)
        self._prompts: dict[str, tuple[Tensor, Tensor]] = {}
        self._tokenizer: PromptTokenizer | None = None

    def __getitem__(self, key: Key) -> _Sample:
        update, position, source_index, frame = key
        source = self._sources[source_index]
        name = source.spec.name
        training = update != FIXED
        images = {}
        for number, camera in enumerate(self._config.cameras):
            image = source.image(camera, frame)
            if self._augmentation is not None and training:
                random = np.random.default_rng([self._seed, AUGMENT, update, position, number])
                images[camera] = augment(image, self._size, self._augmentation, random)
            else:
                images[camera] = evaluation_view(
                    image, self._size, self._augmentation.crop if self._augmentation else None
                )
        actions, valid = source.actions(frame, self._config.chunk)
        actions = self.normalizers[name]["action"](actions)
        state = self.normalizers[name]["state"](source.state(frame)) if self._config.state_dim else None
        noise, time = None, None
        if self._config.action["decoder"] == "flowMatching":
            random = np.random.default_rng(
                [self._seed, NOISE, update, position] if training else [self._seed, FIXED_NOISE, position]
            )
            noise = torch.from_numpy(random.standard_normal(actions.shape).astype(np.float32))
            time = float(
                random.beta(self._config.action.get("time_alpha", 1.5), self._config.action.get("time_beta", 1.0))
                * 0.999
                + 0.001
            )
        return _Sample(images, source.instruction(frame), state, actions, valid, noise, time, position, name)

    def collate(self, samples: list[_Sample]) -> Batch:
        """Stacks samples into a batch on the CPU."""
        prompts = [self._prompt(sample.instruction) for sample in samples]
        first = samples[0]
        return Batch(
            images={
                camera: torch.stack([sample.images[camera] for sample in samples]) for camera in self._config.cameras
            },
            prompt=torch.stack([ids for ids, _ in prompts]),
            prompt_mask=torch.stack([mask for _, mask in prompts]),
            state=torch.stack([sample.state for sample in samples if sample.state is not None])
            if first.state is not None
            else None,
            actions=torch.stack([sample.actions for sample in samples]),
            valid=torch.stack([sample.valid for sample in samples]),
            noise=torch.stack([sample.noise for sample in samples if sample.noise is not None])
            if first.noise is not None
            else None,
            time=torch.tensor([sample.time for sample in samples], dtype=torch.float32)
            if first.time is not None
            else None,
            positions=torch.tensor([sample.position for sample in samples]),
            dataset=[sample.dataset for sample in samples],
        )

    def _prompt(self, text: str) -> tuple[Tensor, Tensor]:
        if text not in self._prompts:
            if self._tokenizer is None:
                self._tokenizer = prompt_tokenizer(self._config)
            try:
                ids, mask = self._tokenizer([text])
            except ValueError as problem:
                raise UserError(str(problem)) from None
            self._prompts[text] = (ids[0], mask[0])
        return self._prompts[text]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tokenizer": None}


@dataclass
class _Source:
    """One opened LeRobot dataset: numbers in memory, pictures decoded frame by frame."""

    spec: Dataset
    config: VLAConfig
    root: Path = field(init=False)
    training: list[int] = field(init=False)
    held_out: list[int] = field(init=False)

    def __post_init__(self) -> None:
        spec = self.spec
        self._lerobot = self._open()
        meta = self._lerobot.meta
        self.root = Path(self._lerobot.root)
        where = f"dataset '{spec.name}' ({self.root})"
        if meta.total_episodes == 0 or meta.total_frames == 0:
            raise UserError(
                f"{where} is empty: no episodes were recorded, or `finalize()` was not called after recording."
            )
        for role, feature in [
            *spec.cameras.items(),
            ("action", spec.action),
            *([("state", spec.state)] if spec.state else []),
        ]:
            if feature not in meta.features:
                raise UserError(
                    f"{where} has no feature '{feature}' (for {role}). It has {', '.join(k for k in meta.features if '.' in k or k == 'action')}."
                )
        for camera, feature in spec.cameras.items():
            if meta.features[feature]["dtype"] not in ("image", "video"):
                raise UserError(
                    f"{where}: '{feature}' (for camera '{camera}') is {meta.features[feature]['dtype']}, not an image or a video."
                )
        self._check_width(where, spec.action, int(self.config.action_dim), "action")
        if spec.state is not None:
            self._check_width(where, spec.state, int(self.config.state_dim), "state")

        table = self._lerobot.hf_dataset.data
        self._actions = torch.from_numpy(_numbers(table, spec.action).astype(np.float32))
        self._states = torch.from_numpy(_numbers(table, spec.state).astype(np.float32)) if spec.state else None
        self._episode = _numbers(table, "episode_index")[:, 0].astype(np.int64)
        self._timestamp = _numbers(table, "timestamp")[:, 0].astype(np.float64)
        tasks = {int(row["task_index"]): str(text) for text, row in meta.tasks.iterrows()}
        self._task = [tasks[int(index)] for index in _numbers(table, "task_index")[:, 0]]
        starts = np.flatnonzero(np.r_[True, self._episode[1:] != self._episode[:-1]])
        self._end = np.repeat(np.r_[starts[1:], len(self._episode)], np.diff(np.r_[starts, len(self._episode)]))
        selected = set(self._episode.tolist()) if spec.episodes is None else set(spec.episodes)
        for what, wanted, have in [
            ("episodes", selected, set(self._episode.tolist())),
            ("held-out episodes", set(spec.holdout), selected),
        ]:
            if wanted - have:
                raise UserError(
                    f"{where}: {what} {sorted(wanted - have)} do not exist; there are {len(have)}, {min(have)} to {max(have)}."
                )
        held = np.isin(self._episode, np.asarray(list(spec.holdout), dtype=np.int64))
        self.training = np.flatnonzero(
            ~held & np.isin(self._episode, np.asarray(sorted(selected), dtype=np.int64))
        ).tolist()
        self.held_out = np.flatnonzero(held).tolist()
        if not self.training:
            raise UserError(f"{where}: every episode is held out, nothing is left to train on.")
        self._images: Any = {}

    def names(self, feature: str) -> list[str] | None:
        """Names of a feature's dimensions, if the dataset has them as a flat list."""
        names = self._lerobot.meta.features[feature].get("names")
        return [str(name) for name in names] if isinstance(names, list) else None

    def normalization(
        self, feature: str, mode: Mode, constant: Constant, mask: list[bool] | None, clip: bool
    ) -> dict[str, Any]:
        """The arguments of `normalizer` for a feature, from `meta/stats.json`, checked.

        Raises:
            UserError: a needed statistic is missing or not finite, or a dimension is constant and nothing was said about that.
        """
        path = self.root / "meta" / "stats.json"
        try:
            everything = json.loads(path.read_text())
        except (OSError, json.JSONDecodeError) as problem:
            raise UserError(f"{path}: cannot read the dataset's statistics ({problem}). {RECOMPUTE}") from None
        if feature not in everything:
            raise UserError(
                f"{path} has no statistics of '{feature}'; it has {', '.join(sorted(everything))}. {RECOMPUTE}"
            )
        statistics = {
            key: [float(value) for value in everything[feature][key]]
            for key in STATISTICS
            if key in everything[feature]
        }
        recipe = {
            "feature": feature,
            "mode": mode,
            "statistics": statistics,
            "mask": mask,
            "clip": clip,
            "constant": constant,
        }
        try:
            normalizer(**recipe)
        except ValueError as problem:
            names = self.names(feature)
            told = f" The dimensions are {', '.join(f'{i} {name}' for i, name in enumerate(names))}." if names else ""
            hint = f" {QUANTILES}" if mode == "quantiles" and "q01" not in statistics else ""
            raise UserError(f"{path}: {problem}{told}{hint}") from None
        return recipe

    def instruction(self, frame: int) -> str:
        """The task's sentence."""
        return self._task[frame]

    def state(self, frame: int) -> Tensor:
        """float32 [S] in the dataset's units."""
        if self._states is None:
            raise ValueError(f"dataset '{self.spec.name}' was opened without a state feature")
        return self._states[frame]

    def actions(self, frame: int, chunk: int) -> tuple[Tensor, Tensor]:
        """float32 [chunk, A] from `frame` on, the last action repeated past the episode's end, and bool [chunk]: False there."""
        offsets = np.arange(frame, frame + chunk)
        return self._actions[np.minimum(offsets, self._end[frame] - 1)], torch.from_numpy(offsets < self._end[frame])

    def image(self, camera: str, frame: int) -> Tensor:
        """uint8 [3, H, W] of a camera, decoded from the parquet's bytes or the video."""
        feature = self.spec.cameras[camera]
        meta = self._lerobot.meta
        if meta.features[feature]["dtype"] == "video":
            from lerobot.datasets.video_utils import decode_video_frames

            episode = int(self._episode[frame])
            start = float(meta.episodes[episode][f"videos/{feature}/from_timestamp"])
            path = self.root / meta.get_video_file_path(episode, feature)
            frames = decode_video_frames(
                path, [start + float(self._timestamp[frame])], 1e-4, self._lerobot._video_backend, return_uint8=True
            )
            return frames[0]
        from torchvision.io import ImageReadMode, decode_image

        if feature not in self._images:
            self._images[feature] = self._lerobot.hf_dataset.data.column(feature)
        data = self._images[feature][frame]["bytes"].as_buffer()
        return decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)

    def _open(self) -> Any:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        spec = self.spec
        repo = spec.repo or f"local/{spec.name}"
        if spec.root is not None and not (Path(spec.root) / "meta" / "info.json").is_file():
            raise UserError(
                f"dataset '{spec.name}': {spec.root} is not a LeRobot dataset (no meta/info.json there, seen from {Path.cwd()})."
            )
        try:
            return LeRobotDataset(repo, root=spec.root, revision=spec.revision)
        except Exception as problem:  # LeRobot, datasets and pyarrow raise many types for a broken dataset
            text = str(problem) or type(problem).__name__
            hint = (
                "A parquet file is cut off or `finalize()` was not called after recording; copy or record it again."
                if "arquet" in text
                else "Check the path, or copy it again."
            )
            raise UserError(
                f"dataset '{spec.name}' ({spec.root or repo}) cannot be opened: {text.splitlines()[0]}. {hint}"
            ) from problem

    def _check_width(self, where: str, feature: str, wanted: int, role: Literal["action", "state"]) -> None:
        shape = list(self._lerobot.meta.features[feature]["shape"])
        if shape != [wanted]:
            raise UserError(
                f"{where}: '{feature}' has shape {shape}, the model's {role} has {wanted} dimensions. Lock the data again (`vla lock`) and build."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_images": {}}


def _numbers(table: Any, name: str) -> np.ndarray:
    """A column of numbers or of vectors as [rows, width], read at once: row by row it takes a minute for 20,000 frames."""
    column = table.column(name).combine_chunks()
    values = column.flatten() if column.type.num_fields else column  # a list column holds vectors
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
