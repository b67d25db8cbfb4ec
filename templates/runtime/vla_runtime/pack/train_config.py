"""LeRobot's own train_config.json for a policy that was trained here, so that `lerobot-train` can go on with it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from lerobot.configs.default import DatasetConfig
from lerobot.configs.train import TrainPipelineConfig
from lerobot.optim.optimizers import AdamConfig, AdamWConfig, OptimizerConfig
from lerobot.optim.schedulers import (
    ConstantWithWarmupSchedulerConfig,
    CosineAnnealingWithWarmupSchedulerConfig,
    CosineDecayWithWarmupSchedulerConfig,
    DiffuserSchedulerConfig,
    LRSchedulerConfig,
)


def learning_rate(pipeline: Mapping[str, Any]) -> tuple[float, float]:
    """The one learning rate and weight decay that LeRobot's trainer can be told: those of the module with most trained parameters."""

    def trained(module: Mapping[str, Any]) -> float:
        counts = [module["count"], module["deadCount"]]
        known = [count if isinstance(count, int) else 0 for count in counts]
        return -1.0 if not isinstance(module["lr"], int | float) else known[0] - known[1]

    chosen = max(pipeline["modules"], key=trained)
    lr = chosen["lr"] if isinstance(chosen["lr"], int | float) else 0.0
    return float(lr), float(chosen["weightDecay"])


def train_config(
    pipeline: Mapping[str, Any], dataset: Mapping[str, Any], policy: Any, rename_map: dict[str, str]
) -> TrainPipelineConfig:
    """LeRobot's configuration of the run.

    Args:
        pipeline: the plan's values.
        dataset: the plan's node of the dataset that the directory is for.
        policy: LeRobot's configuration of the policy.
        rename_map: names of the dataset's features -> the policy's.
    """
    training, checkpoint = pipeline["training"], pipeline["checkpoint"]
    held_out = dataset["holdout"] if isinstance(dataset["holdout"], list) else []
    used = dataset["selected"]
    if held_out and used is None and isinstance(dataset["episodes"], int):
        used = list(range(dataset["episodes"]))
    return TrainPipelineConfig(
        dataset=DatasetConfig(
            repo_id=dataset["repo"] or f"local/{dataset['name']}",
            root=dataset["root"],
            revision=dataset["revision"],
            episodes=None if used is None else [episode for episode in used if episode not in held_out],
            use_imagenet_stats=pipeline["model"]["images"] == "imagenet",
            video_backend="pyav",
        ),
        policy=policy,
        job_name=pipeline["name"],
        seed=training["seed"],
        batch_size=max(1, training["globalBatch"] // pipeline["parallel"]["world"]),
        steps=training["updates"],
        save_freq=checkpoint["every"],
        env_eval_freq=0,
        num_workers=pipeline["loader"]["workers"],
        persistent_workers=pipeline["loader"]["workers"] > 0,
        use_policy_training_preset=False,
        optimizer=_optimizer(pipeline, policy),
        scheduler=_scheduler(training, learning_rate(pipeline)[0]),
        rename_map=rename_map,
    )


def _optimizer(pipeline: Mapping[str, Any], policy: Any) -> OptimizerConfig:
    """AdamW with the plan's values; a policy whose preset is an optimizer of its own (X-VLA) keeps that class."""
    training = pipeline["training"]
    lr, weight_decay = learning_rate(pipeline)
    values = {
        "lr": lr,
        "betas": tuple(training["optimizer"]["betas"]),
        "eps": training["optimizer"]["eps"],
        "weight_decay": weight_decay,
        "grad_clip_norm": training["clip"] or 0.0,  # LeRobot's word for "do not clip"
    }
    preset = policy.get_optimizer_preset()
    if isinstance(preset, AdamConfig | AdamWConfig):
        return AdamWConfig(**values)
    known = {field.name for field in dataclasses.fields(preset)}
    return dataclasses.replace(preset, **{name: value for name, value in values.items() if name in known})


def _scheduler(training: Mapping[str, Any], lr: float) -> LRSchedulerConfig:
    schedule, updates = training["schedule"], training["updates"]
    warmup = schedule["warmup"]
    if schedule["kind"] == "constant":
        return ConstantWithWarmupSchedulerConfig(num_warmup_steps=warmup)
    if schedule["kind"] == "linear":
        return DiffuserSchedulerConfig(name="linear", num_warmup_steps=warmup)
    if schedule["floor"] == 0.0:
        return CosineAnnealingWithWarmupSchedulerConfig(num_warmup_steps=warmup)
    return CosineDecayWithWarmupSchedulerConfig(
        num_warmup_steps=warmup, num_decay_steps=updates, peak_lr=lr, decay_lr=lr * schedule["floor"]
    )


def differences(pipeline: Mapping[str, Any]) -> list[str]:
    """What of the training LeRobot's trainer cannot be told or does another way, one sentence each."""
    training, lr = pipeline["training"], learning_rate(pipeline)[0]
    said = []
    others = [
        f"{module['name']} {module['lr']:g}"
        for module in pipeline["modules"]
        if isinstance(module["lr"], int | float) and module["lr"] != lr
    ]
    if others:
        said.append(f"One learning rate, {lr:g}; here {', '.join(others)} had another.")
    scheduled = [module["name"] for module in pipeline["modules"] if [p["trains"] for p in module["freeze"]] != ["all"]]
    if scheduled:
        said.append(f"No freeze schedule; here {', '.join(scheduled)} was frozen at least for a time.")
    adapted = [module["name"] for module in pipeline["modules"] if module["adapt"] is not None]
    if adapted:
        said.append(f"The adapters of {', '.join(adapted)} are merged: training goes on with the whole weights.")
    if len(pipeline["datasets"]) > 1:
        said.append(f"One dataset; here there were {len(pipeline['datasets'])}, mixed by weight.")
    if not training["optimizer"]["decayBiasAndNorm"]:
        said.append("Biases and norms are decayed too.")
    if training["accumulation"] != 1:
        said.append(
            f"No accumulation of gradients: batch_size is the global batch by the {pipeline['parallel']['world']} processes."
        )
    if training["schedule"]["kind"] == "linear" and training["schedule"]["floor"] > 0:
        said.append("The linear schedule ends at zero.")
    if training["schedule"]["kind"] == "cosine" and training["schedule"]["floor"] > 0:
        said.append("The cosine is counted from the first update, not from the end of the warm-up.")
    if pipeline["augment"] is not None:
        said.append("No augmentation.")
    return said
