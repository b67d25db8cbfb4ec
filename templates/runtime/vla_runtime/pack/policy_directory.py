"""The complete directory of a LeRobot policy: what stock LeRobot loads, offline, and what says where it comes from.

<out>/                       for one dataset; several have a directory each, `<out>/<dataset>/`, over one weight file (hard links)
    config.json              LeRobot's configuration of the policy
    model.safetensors        the weights, under LeRobot's own names, in one dtype
    policy_preprocessor.json, policy_postprocessor.json and their state files
    tokenizer/               the tokenizer as a plain folder, for a policy that has one
    hub/                     what LeRobot reads by name (tokenizer, base configuration), as a folder for HF_HUB_CACHE
    train_config.json        for `lerobot-train`
    stats.json               the statistics that normalise, by the policy's features
    embodiment.json          names, units, limits, control rate, cameras
    plan.json, README.md     what was trained, and how to load it
    verification.json        the comparison with the trainer, in a fresh process
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor import RenameObservationsProcessorStep
from torch import Tensor

from ..errors import UserError
from ..partition import DType
from ..policies.audit import check_stock_loading
from ..policies.processors import policy_processors
from ..policies.spec import IMAGES, STATE, PolicySpec, build_policy, leave_out_empty_cameras, policy_config
from .assets import copy_assets, find_assets, renamed
from .checkpoint import Packable
from .embodiment import dataset_info, embodiment
from .policy_card import write_policy_card
from .policy_verification import verify_policy
from .train_config import learning_rate, train_config

LEROBOT_DTYPES: dict[str, str] = {"fp32": "float32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class _Written:
    """A directory that was written, and what is checked of it."""

    path: Path
    dataset: str


def policy_directory(
    checkpoint: Packable[PreTrainedPolicy],
    spec: PolicySpec,
    out: Path,
    *,
    dtype: DType,
    action_steps: int | None = None,
    roots: Mapping[str, str] | None = None,
) -> list[Path]:
    """Writes and verifies the package.

    Args:
        checkpoint: what is packed.
        spec: the declaration of the policy, of model.py.
        out: directory; a package that is there is replaced.
        dtype: of the weights, all of them: LeRobot's loader of pi0 and pi0.5 depends on the order of names in the file, which mixed
            dtypes change.
        action_steps: actions of a chunk that are executed before the policy is asked again; None: as trained.
        roots: dataset -> directory on this machine, for the names of dimensions; what has none is looked up in LeRobot's cache.

    Returns:
        The policy directories, one for each dataset.

    Raises:
        UserError: the package cannot be made of this, or the reloaded policy does not act as the trainer's did.
    """
    if dtype not in LEROBOT_DTYPES:
        raise UserError(f"A LeRobot policy is packed in fp32 or bf16, not in {dtype}: its classes compute in these.")
    pipeline = checkpoint.plan["pipeline"]
    datasets: list[dict[str, Any]] = pipeline["datasets"]
    exported = _exported_spec(spec, pipeline, dtype, action_steps)
    weights = checkpoint.exported(dtype)
    with torch.device("meta"):
        policy = build_policy(exported)
    leave_out_empty_cameras(policy.config)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    written: list[_Written] = []
    for dataset in datasets:
        name = dataset["name"]
        directory = partial if len(datasets) == 1 else partial / name
        info = dataset_info(dataset, (roots or {}).get(name))
        if info is None:
            print(
                f"{name}: its meta/info.json is not on this machine, so embodiment.json has no names of dimensions.",
                flush=True,
            )
        first = partial / written[0].path if written else None
        _write(directory, checkpoint, policy, exported, dataset, weights, info, first)
        write_policy_card(directory, checkpoint.plan, checkpoint.path.name, checkpoint.update, exported, dataset, dtype)
        written.append(_Written(directory.relative_to(partial), name))
    if out.exists():
        shutil.rmtree(out)
    partial.rename(out)
    for entry in written:
        verify_policy(out / entry.path, checkpoint, exported, entry.dataset, weights, dtype)
    return [out / entry.path for entry in written]


def _exported_spec(spec: PolicySpec, pipeline: Mapping[str, Any], dtype: DType, action_steps: int | None) -> PolicySpec:
    """The declaration as the package has it: nothing is fetched when it is loaded, and LeRobot's own trainer finds the plan's values."""
    config: dict[str, Any] = dict(spec.config)
    known = policy_config(spec, device="cpu")
    if action_steps is not None and action_steps != getattr(known, "n_action_steps", action_steps):
        config["n_action_steps"] = action_steps
    for field, value in (("load_vlm_weights", False), ("pretrained_backbone_weights", None)):
        if hasattr(known, field):  # the weights are in the package
            config[field] = value
    if hasattr(known, "dtype") and "dtype" not in config and known.dtype in LEROBOT_DTYPES.values():
        config["dtype"] = LEROBOT_DTYPES[dtype]
    training = pipeline["training"]
    lr, weight_decay = learning_rate(pipeline)
    for field, value in (
        ("optimizer_lr", lr),
        ("optimizer_lr_backbone", lr),
        ("optimizer_weight_decay", weight_decay),
        ("optimizer_betas", list(training["optimizer"]["betas"])),
        ("optimizer_eps", training["optimizer"]["eps"]),
        ("optimizer_grad_clip_norm", training["clip"]),
    ):
        if hasattr(known, field) and value is not None and field not in config:
            config[field] = value
    exported = replace(spec, config=config)
    policy_config(exported, device="cpu")  # LeRobot's own checks of the new values
    return exported


def _write(
    directory: Path,
    checkpoint: Packable[PreTrainedPolicy],
    policy: PreTrainedPolicy,
    spec: PolicySpec,
    dataset: Mapping[str, Any],
    weights: dict[str, Tensor],
    info: Mapping[str, Any] | None,
    first: Path | None,
) -> None:
    """Everything but the card and the verification. `first`: the directory whose weight file this one shares."""
    directory.mkdir(parents=True)
    config: Any = policy.config
    recipes = checkpoint.normalization[dataset["name"]]
    if first is None:
        policy.save_pretrained(directory, state_dict=dict(weights))
        check_stock_loading(directory / "model.safetensors")
    else:
        config.save_pretrained(directory)
        os.link(first / "model.safetensors", directory / "model.safetensors")
    names = rename_map(spec, dataset)
    before, after = policy_processors(spec, recipes)
    for step in before.steps:
        if isinstance(step, RenameObservationsProcessorStep):
            step.rename_map = names
    before.save_pretrained(directory)
    after.save_pretrained(directory)
    train_config(checkpoint.plan["pipeline"], dataset, config, names).save_pretrained(directory)

    documents = {
        name: json.loads((directory / name).read_text())
        for name in ("config.json", "policy_preprocessor.json", "policy_postprocessor.json", "train_config.json")
    }
    for document in (documents["config.json"], documents["train_config.json"]["policy"]):
        document["device"] = None  # LeRobot chooses what the machine has
    assets = find_assets({name: documents[name] for name in documents if name != "train_config.json"}, spec.tokenizer)
    copy_assets(assets, directory)
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(renamed(document, assets), indent=2) + "\n")
    tokenizer = next((t for step in before.steps if (t := getattr(step, "input_tokenizer", None)) is not None), None)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory / "tokenizer")
    statistics = {feature: recipe["statistics"] for feature, recipe in recipes.items() if recipe["statistics"]}
    for name, content in (
        ("stats.json", statistics),
        ("embodiment.json", embodiment(spec, config, dataset, recipes, info)),
        ("plan.json", checkpoint.plan),
    ):
        (directory / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def rename_map(spec: PolicySpec, dataset: Mapping[str, Any]) -> dict[str, str]:
    """The dataset's features -> the policy's, where they differ: what LeRobot's tools take as `--rename_map`."""
    pairs = {dataset["cameras"][camera]: f"{IMAGES}.{camera}" for camera in spec.cameras}
    if spec.state_dim:
        pairs[dataset["state"]] = STATE
    return {theirs: ours for theirs, ours in pairs.items() if theirs != ours}
