"""Loads what was written in a fresh process and compares it with where it came from.

python -m vla_convert.verify JOB RESULT: both are JSON files; see `Job`. Exit status 2 with a message on stderr where it cannot be done.
"""

import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vla_runtime.errors import UserError

from .batch import ModelBatch, fixed_batch, read_batch
from .jobs import Job, RenamedJob
from .memory import peak, resident
from .orbax import tensorstore
from .sizes import CAMERAS

TOLERANCE = {"float32": 2e-4, "bfloat16": 5e-2}
"""Largest difference of a normalised action. Heads of one layer permuted give 0.3 and more, two cameras swapped 0.04 and more."""
STATISTICS_TOLERANCE = 1e-4
"""Largest difference of a normalised state or action, beyond what fp32 must lose."""


def verify(job: Job | RenamedJob) -> dict[str, Any]:
    """Runs the job in a fresh process.

    Returns:
        what `verification.json` says; `agrees` tells whether the tolerances hold, `summary` both in a sentence.

    Raises:
        UserError: what was written does not load.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, result = Path(folder) / "job.json", Path(folder) / "result.json"
        told.write_text(json.dumps(asdict(job)))
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        if isinstance(job, Job) and job.carried:
            environment["HF_HUB_CACHE"] = str(Path(job.directory) / "hub")
        # Where this package is found is told by path: the process starts with nothing imported.
        paths = [str(Path(__file__).parent.parent), str(Path(sys.modules["vla_runtime"].__path__[0]).parent)]
        environment["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "vla_convert.verify", str(told), str(result)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not result.is_file():
            last = done.stderr.strip() or f"exit code {done.returncode}"
            raise UserError(f"What was written does not load in a fresh process:\n{last}")
        return json.loads(result.read_text())


def _run(job: Job) -> dict[str, Any]:
    from .policies import load_config, modeling

    directory = Path(job.directory)
    config = load_config(directory)
    modeling(config.type)
    if (Path(job.openpi) / "params").is_dir():
        tensorstore()
    libraries = resident()
    tolerance = TOLERANCE[config.dtype]
    batch, against = _original(job, config)
    if job.openpi_is_new:
        actions = _lerobot(job, config, lambda _: batch, weights=Path(job.openpi) / "model.safetensors")[1]
    else:
        actions = _lerobot(job, config, lambda _: batch)[1]
    assert batch.actions is not None
    if batch.actions.shape != actions.shape:
        raise UserError(f"The actions are of shape {list(actions.shape)}, the original's {list(batch.actions.shape)}.")
    difference = float((actions - batch.actions).abs().max())
    told = {
        "actions": {
            "against": against,
            "largestDifference": difference,
            "tolerance": tolerance,
            "largestAction": float(batch.actions.abs().max()),
            "shape": list(actions.shape),
            "steps": batch.steps,
            "unit": "normalised action",
            "dtype": config.dtype,
        },
        "statistics": _statistics(job, config),
        "memoryBytes": {"libraries": libraries, "peak": peak()},
    }
    # "not more than" also fails for NaN.
    normalised = told["statistics"]["largestDifference"]
    agrees = difference <= tolerance and normalised <= STATISTICS_TOLERANCE
    summary = (
        f"loaded in a fresh process; largest difference of an action {difference:.2g} of {tolerance:g} allowed ({config.dtype}; against "
        f"{against}), of a normalised value {normalised:.2g} of {STATISTICS_TOLERANCE:g}"
    )
    return {"agrees": bool(agrees), "summary": summary, **told}


def _renamed(job: RenamedJob) -> dict[str, Any]:
    from .openvla import compare_renamed

    return compare_renamed(job)


def _original(job: Job, config: Any) -> tuple[ModelBatch, str]:
    """The batch with the original's actions, and in words where these come from."""
    if job.reference is not None:
        return read_batch(Path(job.reference)), "actions stored with the reference batch"
    from .openpi import open_openpi
    from .orbax import OrbaxParams
    from .reference_model import actions

    def drawn(sizes: Any) -> ModelBatch:
        return fixed_batch(sizes, config.chunk_size, config.tokenizer_max_length, list(job.cameras))

    if job.openpi_is_new:
        return _with_actions(*_lerobot(job, config, drawn)), "the policy directory that was converted, on a fixed batch"
    checkpoint = open_openpi(Path(job.openpi))
    if isinstance(checkpoint.weights, OrbaxParams):
        told = actions(checkpoint.weights, checkpoint.sizes, drawn(checkpoint.sizes))
        return told, "the checkpoint's leaves in openpi's own layout, on a fixed batch"
    weights = checkpoint.directory / "model.safetensors"
    told = _with_actions(*_lerobot(job, config, drawn, weights=weights))
    return told, "openpi's file through LeRobot's own renaming, on a fixed batch"


def _with_actions(batch: ModelBatch, actions: Tensor) -> ModelBatch:
    return ModelBatch(**{**vars(batch), "actions": actions})


@torch.no_grad()
def _lerobot(
    job: Job, config: Any, make: Callable[[Any], ModelBatch], weights: Path | None = None
) -> tuple[ModelBatch, Tensor]:
    """A batch and its actions [B, C, A], through LeRobot's class."""
    from .policies import load

    policy, sizes = load(Path(job.directory), config, weights)
    batch = make(sizes)
    camera_of = {feature: camera for camera, feature in job.cameras.items()}
    seen = []
    for feature in config.image_features:
        if feature not in camera_of:
            raise UserError(f"config.json has an image feature {feature} that no camera was mapped to.")
        if camera_of[feature] not in batch.images:
            raise UserError(f"The reference has no pictures of {camera_of[feature]}.")
        seen.append(camera_of[feature])
    for camera in CAMERAS:
        if camera in batch.images and camera not in seen and bool(batch.masks[camera].any()):
            raise UserError(f"The reference shows the model a picture of {camera}, which was mapped to none.")
    images = [batch.images[camera].permute(0, 3, 1, 2) for camera in seen]
    masks = [batch.masks[camera] for camera in seen]
    state = [batch.state] if config.type == "pi0" else []
    actions = policy.model.sample_actions(
        images, masks, batch.tokens, batch.token_mask, *state, noise=batch.noise, num_steps=batch.steps
    )
    del policy
    gc.collect()  # before another one is mapped
    return batch, actions.float()


class _NoTokenizer:
    """Stands in where the tokenizer does not travel along; normalising reads nothing of it."""


def _statistics(job: Job, config: Any) -> dict[str, Any]:
    """LeRobot's saved processors against openpi's formulas, on points spread over each dimension's range."""
    from lerobot.lerobot_types import TransitionKey
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.processor.normalize_processor import NormalizerProcessorStep
    from lerobot.processor.relative_action_processor import RelativeActionsProcessorStep

    from .statistics import EPSILON, MODES, NAMES, normalize, read_norm_stats, unnormalize

    overrides = {} if job.carried else {"tokenizer_processor": {"tokenizer": _NoTokenizer()}}
    before, after = make_pre_post_processors(config, pretrained_path=job.directory, preprocessor_overrides=overrides)
    step: Any = next(step for step in before.steps if isinstance(step, NormalizerProcessorStep))
    relative: Any = next(step for step in before.steps if isinstance(step, RelativeActionsProcessorStep))
    mode = MODES[config.type]
    widths = {
        "state": config.input_features["observation.state"].shape[0],
        "actions": config.output_features["action"].shape[0],
    }
    kept = {
        role: {name: values[: widths[role]] for name, values in statistics.items()}
        for role, statistics in read_norm_stats(Path(job.norm_stats), mode).items()
    }
    draw = np.random.default_rng(0)
    low, high = NAMES[mode]
    differences: dict[str, float] = {}

    def record(name: str, ours: np.ndarray, theirs: np.ndarray, unit: np.ndarray, size: np.ndarray) -> None:
        rounding = 2.0**-21 * (1 + (np.abs(size) + np.abs(theirs * unit)) / unit)  # what fp32 must lose
        difference = np.abs(ours - theirs) - rounding
        if job.openpi_is_new:
            # Of a dimension that never varies LeRobot's own epsilon leaves nothing that openpi's could be.
            difference = difference[..., unit > EPSILON]
        differences[name] = (
            float(np.maximum(difference, 0).max(initial=0)) if np.isfinite(difference).all() else float("nan")
        )

    def unit_of(role: str) -> np.ndarray:
        """Robot units per normalised unit, by dimension."""
        if mode == "MEAN_STD":
            return kept[role]["std"] + EPSILON
        return (kept[role]["q99"] - kept[role]["q01"] + EPSILON) / 2

    normal = draw.uniform(-1.2, 1.2, (64, widths["state"])).astype(np.float32)
    states = unnormalize(normal.astype(np.float64), kept["state"], mode).astype(np.float32)
    transition: Any = {TransitionKey.OBSERVATION: {"observation.state": torch.from_numpy(states)}}
    seen = step(transition)[TransitionKey.OBSERVATION]["observation.state"].double().numpy()
    record(
        "state", seen, normalize(states.astype(np.float64), kept["state"], mode), unit_of("state"), kept["state"][low]
    )

    relative(transition)  # keeps the state, to which relative actions are added
    actions = draw.uniform(-1.2, 1.2, (64, widths["actions"])).astype(np.float32)
    robot = after(torch.from_numpy(actions)).double().numpy()
    mask = relative._build_mask(widths["actions"]) if relative.enabled else [False] * widths["actions"]
    meant = unnormalize(actions.astype(np.float64), kept["actions"], mode)
    added = np.zeros_like(meant)
    for index, flag in enumerate(mask):
        if flag:
            added[:, index] = states[:, index]
    unit = unit_of("actions")
    size = np.abs(kept["actions"][low]) + np.abs(added).max(axis=0)
    record("action", robot / unit, (meant + added) / unit, unit, size)
    if job.carried:
        _preprocess(before, config)
    return {
        "largestDifference": max(differences.values()),
        "tolerance": STATISTICS_TOLERANCE,
        "state": differences["state"],
        "action": differences["action"],
        "mode": mode,
        "relative": mask,
        "unit": "normalised, beyond the rounding of fp32",
    }


def _preprocess(before: Any, config: Any) -> None:
    """The whole preprocessor once, with the tokenizer that travels along."""
    observation: dict[str, Any] = {feature: torch.zeros(told.shape) for feature, told in config.image_features.items()}
    observation["observation.state"] = torch.zeros(config.input_features["observation.state"].shape)
    batch = before({**observation, "task": "pick up the cube"})
    tokens = batch["observation.language.tokens"]
    if tuple(tokens.shape) != (1, config.tokenizer_max_length):
        raise UserError(f"The preprocessor gives tokens of shape {list(tokens.shape)}.")


def main(job: str, result: str) -> int:
    """Exit status: 0 done, 2 with the message on stderr."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 0)) or os.cpu_count() or 1)
    try:
        asked = json.loads(Path(job).read_text())
        told = _run(Job(**asked)) if "openpi" in asked else _renamed(RenamedJob(**asked))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    Path(result).write_text(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
