"""The samples of a composed VLA: LeRobot datasets as batches, in the run's global order (order.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from .augment import Augmentation, augment
from .datasets import Dataset, Source
from .errors import UserError
from .modeling.batch import Batch
from .modeling.composed import VLAConfig
from .modeling.images import evaluation_view
from .modeling.normalize import normalizer
from .modeling.observe import image_size, prompt_tokenizer
from .modeling.tokenization import PromptTokenizer
from .order import FIXED, Key, OrderedSamples, View, holdout_loss
from .statistics import Constant, Mode, read_statistics, recipe

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Dataset", "Reference", "Samples", "holdout_loss", "lerobot_samples"]

# Streams of random numbers: a number each, so that no two uses of (seed, update, position) meet. The order has 1.
NOISE, AUGMENT, FIXED_NOISE = 2, 3, 4


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
        sources = [Source(spec, config.action_dim, config.state_dim) for spec in datasets]
    recipes: dict[str, dict[str, Any]] = {}
    for source in sources:
        spec = source.spec
        recipes[spec.name] = {"action": _recipe(source, spec.action, normalize_action, constant, action_mask, clip)}
        if spec.state is not None:
            recipes[spec.name]["state"] = _recipe(source, spec.state, normalize_state, constant, None, clip)
    return Samples(sources, config, recipes, run.device, mesh, global_batch, micro_batch, seed, augmentation, workers)


def _recipe(
    source: Source, feature: str, mode: Mode, constant: Constant, mask: list[bool] | None, clip: bool
) -> dict[str, Any]:
    path, names = source.root / "meta" / "stats.json", source.names(feature)
    statistics = read_statistics(path, feature)
    return recipe(feature, mode, statistics, constant=constant, mask=mask, clip=clip, where=path, names=names)


class Samples(OrderedSamples[Batch]):
    """The samples of a composed VLA."""

    def __init__(
        self,
        sources: list[Source],
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
        self._view: _View = _View(sources, config, normalization, seed, augmentation)
        super().__init__(
            sources,
            self._view,
            device=device,
            mesh=mesh,
            global_batch=global_batch,
            micro_batch=micro_batch,
            seed=seed,
            workers=workers,
        )

    def reference_batch(self) -> Reference:
        """Four fixed samples, held-out ones where there are any, as raw inputs and as the trainer's batch."""
        chosen = self._reference_frames()
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


class _View(View[Batch]):
    """Frames as the model wants them: windows of actions, normalised, augmented, tokenised. Picklable for loader workers."""

    def __init__(
        self,
        sources: list[Source],
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
