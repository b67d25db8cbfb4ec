"""Rolls a packaged policy out in a simulator, with the ablations without which success says little about sight."""

import argparse
import json
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from .errors import UserError
from .pack.reload import PackagedPolicy, open_policy
from .pack.stock import StockPolicy, use_hub_folder
from .simulation import RenderingMissing, choose_renderer, instruction, make_environment

Ablation = Literal["none", "image", "instruction", "action"]
FROZEN_SEED = 987_654_321  # the picture of this seed's start stands in for every picture under `--ablate image`
SHEET_FRAMES = 12


@dataclass(frozen=True)
class Recording:
    """A dataset of the run: whose statistics and camera names a package has for it, and what the simulator has to draw.

    Attributes:
        name: in the plan, in every package.
        root: its directory; None: it is not on this machine, which is said.
        image_feature: the feature of the camera that the simulator's picture feeds.
    """

    name: str
    root: str | None
    image_feature: str

    def tasks(self) -> set[str]:
        """The simulator's tasks that were recorded, where meta/recording.json says them."""
        file = None if self.root is None else Path(self.root) / "meta" / "recording.json"
        if file is None or not file.is_file():
            return set()
        return {episode["task"] for episode in json.loads(file.read_text())["episodes"]}


@dataclass
class Arguments:
    """What evaluate.py was called with."""

    package: Path
    out: Path
    ablate: Ablation
    episodes: int | None
    processes: int
    dataset: str | None = None


@dataclass
class Outcome:
    """One episode. final_distance_m: MetaWorld's own distance to the target at the end, in metres."""

    task: str
    seed: int
    success: bool
    steps: int
    final_distance_m: float


def rollout_arguments(package: str, out: str) -> Arguments:
    """Reads the command line of evaluate.py."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path, default=Path(package), help=f"directory that pack.py wrote ({package})")
    parser.add_argument("--out", type=Path, default=Path(out), help=f"folder of results and contact sheets ({out})")
    parser.add_argument("--ablate", choices=["none", "image", "instruction", "action"], default="none",
                        help="image: one frozen picture; instruction: another task's sentence; action: zeros")  # fmt: skip
    parser.add_argument("--episodes", type=int, default=None, help="seeds per task (as declared)")
    parser.add_argument("--processes", type=int, default=1, help="episodes that run side by side (1)")
    parser.add_argument("--dataset", default=None,
                        help="whose statistics and cameras the policy uses (of several: the one in which a task was recorded)")  # fmt: skip
    options = parser.parse_args()
    return Arguments(options.package, options.out, options.ablate, options.episodes, options.processes, options.dataset)


def evaluate(
    arguments: Arguments,
    *,
    tasks: Sequence[str],
    episodes: int,
    first_seed: int,
    max_steps: int,
    image_size: int,
    action_steps: int,
    camera: str,
    datasets: Sequence[Recording],
) -> list[Outcome]:
    """Runs every task over its seeds, prints a table and writes `results.json` and a contact sheet per episode.

    Args:
        tasks: MetaWorld names.
        episodes: seeds per task: first_seed, first_seed + 1, ...
        max_steps: steps after which an episode has failed.
        image_size: pixels; has to be what the recording had.
        action_steps: actions of a chunk that are executed before the policy is asked again; a LeRobot policy directory says that itself.
        camera: the model's camera that the simulator's picture feeds.
        datasets: those of the run; the first frames of a task's recording are compared with the simulator's.

    Raises:
        UserError: no renderer, no package, a task of which nobody says in which of several datasets it belongs, or the simulator does
            not draw what the recording shows.
    """
    count = arguments.episodes or episodes
    try:
        choose_renderer()
    except RenderingMissing as missing:
        raise UserError(str(missing)) from None
    homes = {task: dataset_of(task, datasets, arguments.dataset) for task in tasks}
    seeds = list(range(first_seed, first_seed + count))
    outcomes: list[Outcome] = []
    context = multiprocessing.get_context("spawn")
    for task in tasks:
        sheets = arguments.out / (task if arguments.ablate == "none" else f"{task}-{arguments.ablate}-ablated")
        sheets.mkdir(parents=True, exist_ok=True)
        package, dataset = _opened(arguments.package, homes[task].name, len(datasets))
        use_hub_folder(package)  # before any process imports LeRobot
        worker = _Worker(
            task, str(package), dataset, arguments.ablate, max_steps, image_size, action_steps, camera, str(sheets)
        )
        # A process per task, even for one: two MetaWorld tasks alive in one process show each other's frames.
        with context.Pool(arguments.processes, initializer=_start, initargs=(worker,)) as pool:
            print(pool.apply(_compare_rendering, (homes[task].root, homes[task].image_feature)))
            outcomes.extend(pool.imap(_episode, seeds))
    arguments.out.mkdir(parents=True, exist_ok=True)
    name = "results.json" if arguments.ablate == "none" else f"results-{arguments.ablate}-ablated.json"
    summary = {task: summarise([o for o in outcomes if o.task == task]) for task in tasks}
    report = {
        "package": str(arguments.package),
        "ablate": arguments.ablate,
        "summary": summary,
        "episodes": [asdict(o) for o in outcomes],
    }
    (arguments.out / name).write_text(json.dumps(report, indent=1))
    for task, row in summary.items():
        print(f"{task}: {row['successes']}/{row['episodes']} solved (95 % interval {row['low']:.0%} to {row['high']:.0%}), "
              f"mean final distance {100 * row['mean_final_distance_m']:.1f} cm")  # fmt: skip
    print(f"results in {arguments.out / name}, contact sheets beside it")
    return outcomes


def dataset_of(task: str, datasets: Sequence[Recording], chosen: str | None) -> Recording:
    """The dataset whose statistics and cameras the policy has to use in a task.

    Raises:
        UserError: there are several, and neither `chosen` nor their recordings say which; or there is none of that name.
    """
    names = ", ".join(recording.name for recording in datasets)
    if chosen is not None:
        found = [recording for recording in datasets if recording.name == chosen]
        if not found:
            raise UserError(f"--dataset {chosen}: the run has {names}.")
    else:
        found = [recording for recording in datasets if len(datasets) == 1 or task in recording.tasks()]
    if len(found) != 1:
        where = "none of them says that it recorded" if not found else "several of them recorded"
        raise UserError(
            f"{task}: the policy was trained on {names}, each with statistics and cameras of its own, and {where} this task. "
            "Say whose are to be used: --dataset <one of these names>."
        )
    return found[0]


def _opened(package: Path, dataset: str, count: int) -> tuple[Path, str | None]:
    """What is opened of a package: the dataset's own policy directory, where there is one for each; and the name for the others."""
    own = package / dataset
    if count > 1 and (own / "policy_preprocessor.json").is_file():
        return own, None
    return package, dataset if count > 1 else None


def summarise(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Successes of one task with Wilson's 95 % interval, and the mean final distance."""
    n, k = len(outcomes), sum(outcome.success for outcome in outcomes)
    low, high = wilson_interval(k, n)
    mean = sum(outcome.final_distance_m for outcome in outcomes) / n
    return {"episodes": n, "successes": k, "low": low, "high": high, "mean_final_distance_m": mean}


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927): unlike the normal one it stays inside [0, 1] and is honest at 0 of n."""
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # exact at both ends, where the formula leaves a rounding error
    return 0.0 if successes == 0 else centre - half, 1.0 if successes == trials else centre + half


@dataclass
class _Worker:
    task: str
    package: str
    dataset: str | None
    ablate: Ablation
    max_steps: int
    image_size: int
    action_steps: int
    camera: str
    sheets: str


@dataclass
class _Open:
    worker: _Worker
    environment: Any
    actions: "_Actions"
    frozen: np.ndarray


class _Actions:
    """A policy's actions one after the other: from LeRobot's own queue, or from chunks of which the first actions are executed."""

    def __init__(self, policy: PackagedPolicy, action_steps: int, dataset: str | None = None) -> None:
        self._policy, self._action_steps, self._dataset = policy, action_steps, dataset
        self._planned: list[np.ndarray] = []

    def begin(self) -> None:
        """Begins an episode."""
        self._planned = []
        if isinstance(self._policy, StockPolicy):
            self._policy.reset()

    def next(self, images: Mapping[str, np.ndarray], sentence: str, state: np.ndarray) -> np.ndarray:
        """float32 [A] in the robot's units."""
        if isinstance(self._policy, StockPolicy):
            return self._policy.step(images, sentence, state)
        if not self._planned:
            self._planned = list(self._policy.act(images, sentence, state, self._dataset)[: self._action_steps])
        return self._planned.pop(0)


_open: _Open | None = None  # of this process
_problem: str | None = None  # why it could not be opened: an initialiser that raises would be started again for ever


def _start(worker: _Worker) -> None:
    global _open, _problem
    torch.set_num_threads(1)
    try:
        environment = make_environment(worker.task, worker.image_size)
        observation, _ = environment.reset(seed=FROZEN_SEED)
        policy = open_policy(Path(worker.package), worker.dataset)
        actions = _Actions(policy, worker.action_steps, worker.dataset)
        _open = _Open(worker, environment, actions, observation["pixels"])
    except Exception as problem:  # transformers, LeRobot and MuJoCo fail in many ways; all of them are told
        _problem = f"{worker.task}: cannot roll {worker.package} out: {problem}"


def _current() -> _Open:
    if _open is None:
        raise UserError(_problem or "the worker process was not initialised")
    return _open


def _compare_rendering(dataset_root: str | None, image_feature: str) -> str:
    """Compares the first recorded frame of this task with what the simulator draws for its seed; says what was compared."""
    here = _current()
    task = here.worker.task
    if dataset_root is None:
        return f"{task}: the dataset is not on this machine, so its rendering was not compared"
    recording = Path(dataset_root) / "meta" / "recording.json"
    if not recording.is_file():
        return f"{task}: {dataset_root} does not say how it was recorded (no meta/recording.json), so its rendering was not compared"
    episodes = json.loads(recording.read_text())["episodes"]
    number = next((i for i, episode in enumerate(episodes) if episode["task"] == task), None)
    if number is None:
        return f"{task}: not in the recording, so its rendering was not compared"
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset: Any = LeRobotDataset("local/recording", root=dataset_root, video_backend="pyav")
    first = sum(episode["length"] for episode in episodes[:number])
    recorded = (dataset[first][image_feature].permute(1, 2, 0).numpy() * 255).round().astype(np.int64)
    observation, _ = here.environment.reset(seed=episodes[number]["seed"])
    drawn = observation["pixels"].astype(np.int64)
    if recorded.shape != drawn.shape or np.abs(recorded - drawn).max() > 0:
        difference = (
            "another size" if recorded.shape != drawn.shape else f"up to {np.abs(recorded - drawn).max()} of 255"
        )
        raise UserError(
            f"{task}: the simulator does not draw what {dataset_root} shows for seed {episodes[number]['seed']} ({difference}). "
            "Record and evaluate with the same MUJOCO_GL, image size and versions."
        )
    return f"{task}: the simulator draws the recording's first frame pixel for pixel (seed {episodes[number]['seed']})"


def _episode(seed: int) -> Outcome:
    here = _current()
    worker, environment = here.worker, here.environment
    sentence = instruction(worker.task)
    if worker.ablate == "instruction":
        sentence = instruction("drawer-close-v3" if worker.task != "drawer-close-v3" else "reach-v3")
    observation, _ = environment.reset(seed=seed)
    frames = [observation["pixels"]]
    here.actions.begin()
    success, distance, step = False, math.nan, 0
    while step < worker.max_steps:
        step += 1
        picture = here.frozen if worker.ablate == "image" else observation["pixels"]
        state = np.asarray(observation["agent_pos"], dtype=np.float32)
        action = np.clip(here.actions.next({worker.camera: picture}, sentence, state), -1.0, 1.0).astype(np.float32)
        if worker.ablate == "action":
            action = np.zeros_like(action)
        observation, _, terminated, truncated, info = environment.step(action)
        frames.append(observation["pixels"])
        success, distance = bool(info["is_success"]), float(info["obj_to_target"])
        if terminated or truncated:
            break
    _contact_sheet(frames, Path(worker.sheets) / f"seed-{seed}-{'solved' if success else 'failed'}.png")
    return Outcome(worker.task, seed, success, step, distance)


def _contact_sheet(frames: Sequence[np.ndarray], path: Path) -> None:
    """Twelve frames from start to end, left to right and top to bottom."""
    chosen = [frames[round(i)] for i in np.linspace(0, len(frames) - 1, SHEET_FRAMES)]
    rows = [np.concatenate(chosen[start : start + 6], axis=1) for start in (0, 6)]
    Image.fromarray(np.concatenate(rows, axis=0)).save(path)
