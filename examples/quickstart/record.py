"""Records demonstrations of MetaWorld tasks by their scripted experts, as a LeRobot v3 dataset with images.

    python record.py --task reach-v3 --episodes 60 --out data/metaworld
    python record.py --task reach-v3=300 --task drawer-close-v3=60 --noise 0.3 --processes 2 --out data/two-tasks

The executed action is the expert's plus noise, the recorded one the expert's own: the policy learns how to come back. Episodes end
at success; one that does not succeed is left out and counted. The same arguments give the same dataset for any number of processes.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from simulation import (
    ACTION_NAMES,
    FPS,
    STATE_NAMES,
    RenderingMissing,
    choose_renderer,
    instruction,
    make_environment,
    probe_rendering,
)

RECORDING = "meta/recording.json"


@dataclass
class Episode:
    """One demonstration: images uint8 [T, size, size, 3], states float32 [T, 4], actions float32 [T, 4] in [-1, 1]."""

    seed: int
    images: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    success: bool


_environment: Any = None  # one per recording process: two live tasks in one process would share their frames


def open_environment(task: str, size: int) -> None:
    """Makes this process's environment."""
    global _environment
    _environment = make_environment(task, size)


def record_episode(job: tuple[int, float, int]) -> Episode:
    """Lets the expert act once from `seed`, with Gaussian noise on the executed action, for at most `max_steps` steps."""
    seed, noise, max_steps = job
    random = np.random.default_rng([seed, 20_250_701])
    observation, _ = _environment.reset(seed=seed)
    if float(observation["pixels"].std()) <= 1.0:
        raise RenderingMissing(f"the renderer draws black frames (seed {seed})")
    images, states, actions = [], [], []
    success = False
    for _ in range(max_steps):
        action = _environment.expert_action()
        images.append(observation["pixels"])
        states.append(np.asarray(observation["agent_pos"], dtype=np.float32))
        actions.append(action)
        executed = np.clip(action + random.normal(0.0, noise, action.shape), -1.0, 1.0).astype(np.float32)
        observation, _, success, truncated, _ = _environment.step(executed)
        if success or truncated:
            break
    return Episode(seed, np.stack(images), np.stack(states), np.stack(actions), bool(success))


def record(
    tasks: dict[str, int], first_seed: int, size: int, noise: float, max_steps: int, processes: int, out: Path
) -> None:
    """Writes that many successful demonstrations of each task to `out`, which must not exist."""
    import datasets
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    datasets.disable_progress_bars()
    dataset = LeRobotDataset.create(
        repo_id="local/metaworld",
        fps=FPS,
        root=out,
        robot_type="metaworld",
        use_videos=False,
        video_backend="pyav",  # named, or LeRobot probes torchcodec and warns where FFmpeg's libraries are missing
        image_writer_threads=2,
        features={
            "observation.image": {"dtype": "image", "shape": (size, size, 3), "names": ["height", "width", "channels"]},
            "observation.state": {"dtype": "float32", "shape": (4,), "names": STATE_NAMES},
            "action": {"dtype": "float32", "shape": (4,), "names": ACTION_NAMES},
        },
    )
    written: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    terminal = sys.stderr.isatty()  # one line that counts up; in a log, a line now and then
    start, end = ("\r", "") if terminal else ("", "\n")
    for task, episodes in tasks.items():
        text, kept, failed, began = instruction(task), 0, 0, time.monotonic()
        with context.Pool(processes, initializer=open_environment, initargs=(task, size)) as pool:
            jobs = ((first_seed + i, noise, max_steps) for i in range(2 * episodes))
            for episode in pool.imap(record_episode, jobs):
                if not episode.success:
                    failed += 1
                    continue
                for image, state, action in zip(episode.images, episode.states, episode.actions, strict=True):
                    dataset.add_frame(
                        {"observation.image": image, "observation.state": state, "action": action, "task": text}
                    )
                dataset.save_episode()
                written.append({"task": task, "seed": episode.seed, "length": len(episode.actions)})
                kept += 1
                if terminal or kept % 50 == 0:
                    print(f"{start}{task}: {kept}/{episodes} episodes", end=end, flush=True, file=sys.stderr)
                if kept == episodes:
                    break
            pool.terminate()
        print(
            f"{start}{task}: {kept} episodes, {failed} without success left out, {time.monotonic() - began:.0f} s",
            file=sys.stderr,
        )
        if kept < episodes:
            raise RuntimeError(
                f"{task}: only {kept} of {2 * episodes} attempts succeeded; lower --noise or raise --max-steps"
            )
    dataset.finalize()
    (out / RECORDING).write_text(
        json.dumps(
            {"arguments": arguments_of(tasks, first_seed, size, noise, max_steps), "episodes": written}, indent=1
        )
    )


def arguments_of(tasks: dict[str, int], first_seed: int, size: int, noise: float, max_steps: int) -> dict[str, Any]:
    """What decides the content of a dataset."""
    return {"env": "metaworld", "tasks": tasks, "first_seed": first_seed, "image_size": size, "shadows": False,
            "noise": noise, "max_steps": max_steps, "renderer": choose_renderer()}  # fmt: skip


def main() -> int:
    """Exit codes: 0 recorded, or already there; 2 cannot record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task",
        action="append",
        dest="tasks",
        metavar="NAME[=EPISODES]",
        help="MetaWorld task, with its own number of episodes if given; may be repeated",
    )
    parser.add_argument(
        "--episodes", type=int, default=60, help="successful episodes of a task that names no number (60)"
    )
    parser.add_argument(
        "--first-seed", type=int, default=0, help="seed of the first episode; the next takes the next (0)"
    )
    parser.add_argument("--size", type=int, default=64, help="image size in pixels, square (64)")
    parser.add_argument(
        "--noise",
        type=float,
        default=0.3,
        help="standard deviation of the noise on executed actions, in [-1, 1] units (0.3)",
    )
    parser.add_argument(
        "--max-steps", type=int, default=200, help="steps after which an episode counts as failed (200)"
    )
    parser.add_argument("--processes", type=int, default=2, help="recording processes (2)")
    parser.add_argument(
        "--out", type=Path, default=Path("data/metaworld"), help="folder of the dataset (data/metaworld)"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a dataset that was recorded with other arguments"
    )
    options = parser.parse_args()
    tasks: dict[str, int] = {}
    for entry in options.tasks or ["reach-v3"]:
        name, _, number = entry.partition("=")
        if number and not (number.isdigit() and int(number) > 0):
            parser.error(f"--task {entry}: the number of episodes must be a positive integer")
        tasks[name] = int(number) if number else options.episodes
    if options.episodes < 1 or options.processes < 1 or options.size < 16 or options.noise < 0:
        parser.error("--episodes and --processes must be at least 1, --size at least 16, --noise not negative")

    try:
        choose_renderer()
        wanted = arguments_of(tasks, options.first_seed, options.size, options.noise, options.max_steps)
        existing = options.out / RECORDING
        if options.out.exists():
            there = json.loads(existing.read_text()).get("arguments") if existing.exists() else None
            if there == wanted:
                print(f"{options.out} was recorded with these arguments already", file=sys.stderr)
                return 0
            if not options.overwrite or there is None:
                print(f"error: {options.out} exists and was not recorded with these arguments; choose another --out"
                      + (", or pass --overwrite" if there is not None else ""), file=sys.stderr)  # fmt: skip
                return 2
        probe_rendering()
        for task in tasks:
            instruction(task)  # refuses an unknown task before anything is written
        partial = options.out.with_name(options.out.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)  # left by a recording that was interrupted
        record(tasks, options.first_seed, options.size, options.noise, options.max_steps, options.processes, partial)
        if options.out.exists():
            shutil.rmtree(options.out)
        partial.rename(options.out)
    except (RenderingMissing, RuntimeError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
