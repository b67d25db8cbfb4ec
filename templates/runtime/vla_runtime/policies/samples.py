"""The samples of a LeRobot policy: LeRobot datasets as batches, in the run's global order, through LeRobot's own processors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from ..augment import Augmentation, augment
from ..datasets import Dataset, Source
from ..errors import UserError
from ..order import FIXED, Key, OrderedSamples, View
from ..statistics import Constant
from .batch import PolicyBatch
from .draws import sample_seed
from .losses import losses_of
from .processors import Recipes, policy_processors, policy_recipes, relative_mask
from .spec import ACTION, IMAGES, STATE, PolicySpec, policy_config

if TYPE_CHECKING:
    from ..run import Run

AUGMENT = 3  # as in data.py
_NOISE, _SEEDS = -2, -3  # stand for the update in the seeds of the reference batch
_NOT_READ = (
    "next.reward",
    "next.done",
    "next.truncated",
    "info",
)  # what LeRobot's converter adds for reinforcement learning


@dataclass
class PolicyReference:
    """Raw inputs with which every package is compared, and the batch that the trainer makes of them.

    images: camera -> uint8 [B, 3, H, W] as the dataset has them; [B, T, 3, H, W] for a policy that sees T observations.
    state: [B, S] or [B, T, S] in the dataset's units, or None.
    noise: [B, ...] as `predict_action_chunk` takes it, or None where the policy takes none.
    seeds: for each sample; what the policy draws itself comes from a CPU generator with it: `torch.manual_seed(seeds[i])` before asking
        for sample i alone on the CPU.
    """

    images: dict[str, Tensor]
    instructions: list[str]
    state: Tensor | None
    noise: Tensor | None
    seeds: list[int]
    datasets: list[str]
    batch: PolicyBatch


def policy_samples(
    datasets: Sequence[Dataset],
    *,
    policy: PolicySpec,
    run: "Run",
    mesh: DeviceMesh,
    constant: Constant,
    global_batch: int,
    micro_batch: int,
    seed: int,
    augmentation: Augmentation | None = None,
    workers: int = 0,
) -> "PolicySamples":
    """Opens the datasets of a run.

    Args:
        policy: the declaration: cameras, widths, windows, normalisation.
        constant: what to do with a dimension that does not vary: stop, leave it as it is, or map it to 0.
        global_batch, micro_batch: samples per update over all ranks, and per forward on one rank.
        workers: loader processes of this rank; 0 loads in the training process.

    Raises:
        UserError: a dataset, feature, width, picture size or statistic is not as declared.
    """
    if augmentation is not None and augmentation.crop is not None:
        raise UserError(
            "augment.crop would train the policy on magnified pictures, but stock LeRobot shows it whole ones. "
            "Drop it, or use the policy's own crop (crop_shape)."
        )
    with run.local_rank_first():  # one download and one cache per node
        sources = [Source(spec, policy.action_dim, policy.state_dim) for spec in datasets]
    unseen = getattr(policy_config(policy, device="cpu"), "drop_n_last_frames", 0)
    for source in sources:
        _check_cameras(source, policy)
        source.leave_out_last(unseen)
    recipes = {source.spec.name: policy_recipes(policy, source, constant=constant) for source in sources}
    return PolicySamples(
        sources, policy, recipes, run.device, mesh, global_batch, micro_batch, seed, augmentation, workers
    )


def example_batch(policy: PolicySpec, size: int = 2) -> PolicyBatch:
    """A batch of zeros as the policy gets it, without any dataset: for its shapes."""
    config = policy_config(policy, device="cpu")
    observed, acted = config.observation_delta_indices, config.action_delta_indices or [0]
    time = () if observed is None else (len(observed),)
    images = {
        camera: torch.zeros(*time, 3, *policy.image_sizes[camera], dtype=torch.uint8) for camera in policy.cameras
    }
    pads = {} if observed is None else {f"{name}_is_pad": torch.zeros(time) > 0 for name in policy.features()}
    sample = _Sample(
        images=images,
        shown=images,
        instruction="move",
        state=torch.zeros(*time, policy.state_dim) if policy.state_dim else None,
        actions=torch.zeros(len(acted), policy.action_dim),
        outside={**pads, f"{ACTION}_is_pad": torch.zeros(len(acted)) > 0},
        update=0,
        position=0,
        dataset="example",
    )
    view = _View([], policy, {"example": {}}, 0, None)
    return view.collate([replace(sample, position=position) for position in range(size)])


class PolicySamples(OrderedSamples[PolicyBatch]):
    """The samples of a LeRobot policy."""

    def __init__(
        self,
        sources: list[Source],
        policy: PolicySpec,
        normalization: dict[str, Recipes],
        device: torch.device,
        mesh: DeviceMesh,
        global_batch: int,
        micro_batch: int,
        seed: int,
        augmentation: Augmentation | None,
        workers: int,
    ) -> None:
        self.policy = policy
        self.normalization = normalization  # dataset -> feature of the policy -> the arguments of `normalizer`; JSON
        self._view: _View = _View(sources, policy, normalization, seed, augmentation)
        self._seed = seed
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

    def processors(self, dataset: str) -> tuple[Any, Any]:
        """LeRobot's pre- and postprocessor as the samples of a dataset pass them; a package carries these."""
        return self._view.processors(dataset)

    def reference_batch(self) -> PolicyReference:
        """Four fixed samples, held-out ones where there are any, as raw inputs and as the trainer's batch."""
        chosen = self._reference_frames()
        rows = [self._view[(FIXED, i, *key)] for i, key in enumerate(chosen)]
        batch = self._view.collate(rows)
        batch.seeds = [sample_seed(self._seed, _SEEDS, i) % 2**31 for i in range(len(rows))]
        shape = losses_of(self.policy.type).noise_shape(policy_config(self.policy, device="cpu"))
        if shape is not None:
            seeds = (sample_seed(self._seed, _NOISE, i) for i in range(len(rows)))
            batch.noise = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(s)) for s in seeds])
        return PolicyReference(
            images={camera: torch.stack([row.images[camera] for row in rows]) for camera in self.policy.cameras},
            instructions=[row.instruction for row in rows],
            state=torch.stack([row.state for row in rows if row.state is not None]) if self.policy.state_dim else None,
            noise=batch.noise,
            seeds=list(batch.seeds),
            datasets=batch.dataset,
            batch=batch.to(self.device),
        )

    def denormalize(self, actions: Tensor, datasets: Sequence[str]) -> Tensor:
        """Actions of the policy for the reference batch [B, C, A], one by one through the postprocessor: in each dataset's units."""
        states: list[Any] = [None] * len(datasets)
        if relative_mask(self.policy) is not None:
            rows = [self._view[(FIXED, i, *key)] for i, key in enumerate(self._reference_frames())]
            states = [row.state for row in rows]
        back = []
        for chunk, name, state in zip(actions, datasets, states, strict=True):
            before, after = self._view.processors(name)
            if state is not None:  # relative actions are added to the state that the preprocessor saw last
                before({STATE: state[None], "task": [""]})
            back.append(torch.stack([after(action[None])[0] for action in chunk]))
        return torch.stack(back)


@dataclass
class _Sample:
    images: dict[str, Tensor]  # uint8, before augmentation and normalisation
    shown: dict[str, Tensor]  # uint8, augmented
    instruction: str
    state: Tensor | None
    actions: Tensor
    outside: dict[str, Tensor]
    update: int
    position: int
    dataset: str


class _View(View[PolicyBatch]):
    """Frames as the policy wants them: windows of observations and actions through LeRobot's preprocessor. Picklable for workers."""

    def __init__(
        self,
        sources: list[Source],
        policy: PolicySpec,
        normalization: dict[str, Recipes],
        seed: int,
        augmentation: Augmentation | None,
    ) -> None:
        self._sources, self._policy, self._normalization = sources, policy, normalization
        self._seed, self._augmentation = seed, augmentation
        config = policy_config(policy, device="cpu")
        self._observed: list[int] | None = config.observation_delta_indices
        self._acted: list[int] = config.action_delta_indices or [0]
        self._processors: dict[str, tuple[Any, Any]] = {}

    def processors(self, dataset: str) -> tuple[Any, Any]:
        """The preprocessor and postprocessor of a dataset."""
        if dataset not in self._processors:
            self._processors[dataset] = policy_processors(self._policy, self._normalization[dataset])
        return self._processors[dataset]

    def __getitem__(self, key: Key) -> _Sample:
        update, position, source_index, frame = key
        source = self._sources[source_index]
        frames, outside = source.window(frame, self._observed or [0])
        images = {
            camera: torch.stack([source.image(camera, int(each)) for each in frames]) for camera in self._policy.cameras
        }
        shown = dict(images)
        if self._augmentation is not None and update != FIXED:
            for number, camera in enumerate(self._policy.cameras):
                # The pictures of a window are augmented alike, as one camera in one light has taken them.
                shown[camera] = torch.stack(
                    [
                        augment(
                            picture,
                            (picture.shape[-2], picture.shape[-1]),
                            self._augmentation,
                            np.random.default_rng([self._seed, AUGMENT, update, position, number]),
                        )
                        for picture in images[camera]
                    ]
                )
        state = torch.stack([source.state(int(each)) for each in frames]) if self._policy.state_dim else None
        acted, beyond = source.window(frame, self._acted)
        pads = {f"{ACTION}_is_pad": beyond}
        if self._observed is None:
            images, shown = ({camera: window[0] for camera, window in some.items()} for some in (images, shown))
            state = None if state is None else state[0]
        else:
            observed = [name for name in self._policy.features() if name != ACTION]
            pads |= {f"{name}_is_pad": outside for name in observed}
        return _Sample(
            images,
            shown,
            source.instruction(frame),
            state,
            source.actions_of(acted),
            pads,
            update,
            position,
            source.spec.name,
        )

    def collate(self, samples: list[_Sample]) -> PolicyBatch:
        """Stacks samples and runs LeRobot's preprocessor, on the CPU; each dataset's samples through its own."""
        names = [sample.dataset for sample in samples]
        parts: list[tuple[list[int], dict[str, Any]]] = []
        for name in dict.fromkeys(names):
            rows = [i for i, other in enumerate(names) if other == name]
            before, _ = self.processors(name)
            parts.append((rows, before(self._stacked([samples[i] for i in rows]))))
        outside = torch.stack([sample.outside[f"{ACTION}_is_pad"] for sample in samples])
        return PolicyBatch(
            tensors={
                name: value for name, value in _merged(parts).items() if name not in _NOT_READ and value is not None
            },
            valid=~outside if self._policy.padding == "masked" else torch.ones_like(outside),
            positions=[sample.position for sample in samples],
            update=samples[0].update,
            seed=self._seed,
            dataset=names,
        )

    def _stacked(self, samples: list[_Sample]) -> dict[str, Any]:
        """Samples as LeRobot's own loader hands them to a preprocessor: pictures in [0, 1], channels first."""
        stacked: dict[str, Any] = {
            f"{IMAGES}.{camera}": torch.stack([sample.shown[camera] for sample in samples]).to(torch.float32) / 255.0
            for camera in self._policy.cameras
        }
        if self._policy.state_dim:
            stacked[STATE] = torch.stack([sample.state for sample in samples if sample.state is not None])
        stacked[ACTION] = torch.stack([sample.actions for sample in samples])
        stacked |= {name: torch.stack([sample.outside[name] for sample in samples]) for name in samples[0].outside}
        stacked["task"] = [sample.instruction for sample in samples]
        return stacked

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_processors": {}}


def _merged(parts: list[tuple[list[int], dict[str, Any]]]) -> dict[str, Any]:
    """Preprocessed parts of a batch as one, rows in the batch's order."""
    if len(parts) == 1:
        return parts[0][1]
    order = [row for rows, _ in parts for row in rows]
    places = [order.index(row) for row in range(len(order))]
    merged: dict[str, Any] = {}
    for name, first in parts[0][1].items():
        values = [part[name] for _, part in parts]
        if isinstance(first, Tensor) and first.ndim:
            widths = {tuple(value.shape[1:]) for value in values}
            if len(widths) > 1:
                raise UserError(
                    f"The policy's preprocessor gives '{name}' other shapes for other datasets ({', '.join(map(str, widths))}). "
                    "Pad prompts to a fixed length (tokenizer padding 'max_length')."
                )
            merged[name] = torch.cat(values)[places]
        elif isinstance(first, list):
            together = [item for value in values for item in value]
            merged[name] = [together[place] for place in places]
        else:
            merged[name] = first
    return merged


def _check_cameras(source: Source, policy: PolicySpec) -> None:
    where = f"dataset '{source.spec.name}' ({source.root})"
    if set(source.spec.cameras) != set(policy.cameras):
        raise UserError(
            f"{where} has the cameras {', '.join(source.spec.cameras) or 'none'}, the policy has {', '.join(policy.cameras) or 'none'}."
        )
    for camera in policy.cameras:
        found, wanted = source.size(camera), tuple(policy.image_sizes[camera])
        if found != wanted:
            raise UserError(
                f"{where}: the pictures of camera '{camera}' are {found[0]} x {found[1]}, the plan says {wanted[0]} x {wanted[1]}. "
                "Lock the data again (`vla lock`) and build."
            )
