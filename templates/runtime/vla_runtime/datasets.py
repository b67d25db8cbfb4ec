"""LeRobot datasets as a run reads them: numbers in memory, pictures decoded frame by frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .errors import UserError


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
class Source:
    """One opened LeRobot dataset: numbers in memory, pictures decoded frame by frame."""

    spec: Dataset
    action_dim: int
    state_dim: int
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
        self._check_width(where, spec.action, self.action_dim, "action")
        if spec.state is not None:
            self._check_width(where, spec.state, self.state_dim, "state")

        table = self._lerobot.hf_dataset.data
        self._actions = torch.from_numpy(_numbers(table, spec.action).astype(np.float32))
        self._states = torch.from_numpy(_numbers(table, spec.state).astype(np.float32)) if spec.state else None
        self._episode = _numbers(table, "episode_index")[:, 0].astype(np.int64)
        self._timestamp = _numbers(table, "timestamp")[:, 0].astype(np.float64)
        tasks = {int(row["task_index"]): str(text) for text, row in meta.tasks.iterrows()}
        self._task = [tasks[int(index)] for index in _numbers(table, "task_index")[:, 0]]
        starts = np.flatnonzero(np.r_[True, self._episode[1:] != self._episode[:-1]])
        lengths = np.diff(np.r_[starts, len(self._episode)])
        self._start, self._end = np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)
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

    def instruction(self, frame: int) -> str:
        """The task's sentence."""
        return self._task[frame]

    def state(self, frame: int) -> Tensor:
        """float32 [S] in the dataset's units."""
        if self._states is None:
            raise ValueError(f"dataset '{self.spec.name}' was opened without a state feature")
        return self._states[frame]

    def window(self, frame: int, deltas: Sequence[int]) -> tuple[np.ndarray, Tensor]:
        """Frames at these distances, the episode's first or last one where a distance leads out of it, and bool: where it does."""
        wanted = frame + np.asarray(deltas, dtype=np.int64)
        start, end = self._start[frame], self._end[frame]
        return np.clip(wanted, start, end - 1), torch.from_numpy((wanted < start) | (wanted >= end))

    def actions_of(self, frames: np.ndarray) -> Tensor:
        """float32 [frames, A] in the dataset's units."""
        return self._actions[frames]

    def leave_out_last(self, count: int) -> None:
        """Takes the last `count` frames of each episode out of training.

        Raises:
            UserError: nothing is left.
        """
        self.training = [frame for frame in self.training if frame < self._end[frame] - count]
        if not self.training:
            raise UserError(
                f"dataset '{self.spec.name}': no episode that is trained on is longer than {count} frames, of which none is used "
                "(drop_n_last_frames)."
            )

    def size(self, camera: str) -> tuple[int, int]:
        """Height and width of a camera's pictures."""
        feature = self._lerobot.meta.features[self.spec.cameras[camera]]
        channels_first = (feature.get("names") or [""])[0] in ("channel", "channels")
        height, width = feature["shape"][1:] if channels_first else feature["shape"][:2]
        return int(height), int(width)

    def actions(self, frame: int, chunk: int) -> tuple[Tensor, Tensor]:
        """float32 [chunk, A] from `frame` on, the last action repeated past the episode's end, and bool [chunk]: False there."""
        frames, outside = self.window(frame, range(chunk))
        return self._actions[frames], ~outside

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
