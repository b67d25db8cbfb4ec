"""LeRobot's policy directory: config.json, both processors with their state, tokenizer, README. The weights are written apart."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from vla_runtime.errors import UserError

from .answers import TOKENIZER, Answers
from .sizes import Sizes, variant
from .statistics import EPSILON, MODES, Statistics, lerobot_statistics

NO_STATE_TEXT = "lerobot.policies.pi0.processor_pi0.Pi0NewLineProcessor"
"""What pi0.5 without state in its prompt gets instead of the step that writes it there: openpi then ends the prompt as for pi0."""
HUB = "hub"
"""Folder of the tokenizer in the form of the hub's cache, which is where LeRobot 0.6 looks for it."""


def lerobot_config(sizes: Sizes, told: Answers) -> Any:
    """LeRobot's configuration of a converted policy.

    Args:
        sizes: of the model; sizes that LeRobot cannot say are written as the published ones.
        told: what the checkpoint did not say.
    """
    from lerobot.configs import FeatureType, PolicyFeature
    from lerobot.policies.pi0.configuration_pi0 import PI0Config
    from lerobot.policies.pi05.configuration_pi05 import PI05Config

    side = sizes.vision.image
    inputs = {feature: PolicyFeature(FeatureType.VISUAL, (3, side, side)) for feature in told.cameras.values()}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (told.state_dim,))
    absolute = [name for name, relative in zip(told.action_names, told.relative, strict=True) if not relative]
    config_class = PI0Config if sizes.family == "pi0" else PI05Config
    return config_class(
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (told.action_dim,))},
        device="cpu",
        push_to_hub=False,
        paligemma_variant=variant(sizes.language) if sizes.published else "gemma_2b",
        action_expert_variant=variant(sizes.expert) if sizes.published else "gemma_300m",
        dtype=told.dtype,
        chunk_size=told.chunk,
        n_action_steps=told.action_steps,
        max_state_dim=sizes.state_dim or sizes.action_dim,
        max_action_dim=sizes.action_dim,
        image_resolution=(side, side),
        tokenizer_max_length=told.tokenizer_length,
        use_relative_actions=any(told.relative),
        relative_exclude_joints=absolute if any(told.relative) else [],
        action_feature_names=list(told.action_names) if any(told.relative) else None,
    )


@contextmanager
def tokenizer_from(directory: Path | None) -> Iterator[None]:
    """LeRobot's processors take their tokenizer from here instead of the hub; without a directory they get none, and ask for none."""

    class _NotHere:
        """Building a pipeline reads nothing of its tokenizer."""

    class _Loader:
        @staticmethod
        def from_pretrained(name: str, **kwargs: Any) -> Any:
            if directory is None:
                return _NotHere()
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(str(directory))

    with patch("lerobot.processor.tokenizer_processor.AutoTokenizer", _Loader):
        yield


def write_processors(
    directory: Path, config: Any, sizes: Sizes, statistics: dict[str, Statistics], told: Answers
) -> None:
    """Both processors through LeRobot's factory, with openpi's epsilon."""
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.processor.normalize_processor import NormalizerProcessorStep, UnnormalizerProcessorStep

    mode = MODES[sizes.family]
    widths = {"state": told.state_dim, "actions": told.action_dim}
    cut = {role: {name: values[: widths[role]] for name, values in kept.items()} for role, kept in statistics.items()}

    def both(*, inverse: bool) -> dict[str, dict[str, Any]]:
        return {
            "observation.state": lerobot_statistics(cut["state"], mode, inverse=inverse),
            "action": lerobot_statistics(cut["actions"], mode, inverse=inverse),
        }

    with tokenizer_from(told.tokenizer):
        before, _ = make_pre_post_processors(config, dataset_stats=both(inverse=False))
        _, after = make_pre_post_processors(config, dataset_stats=both(inverse=True))
    for pipeline in (before, after):
        for step in pipeline.steps:
            if isinstance(step, NormalizerProcessorStep | UnnormalizerProcessorStep):
                normalizer: Any = step
                normalizer.eps = EPSILON  # pyright: ignore[reportAttributeAccessIssue]
        pipeline.save_pretrained(directory)
    if sizes.family == "pi05" and not told.discrete_state:
        file = directory / "policy_preprocessor.json"
        pipeline = json.loads(file.read_text())
        replaced = 0
        for step in pipeline["steps"]:
            if step.get("registry_name") == "pi05_prepare_state_tokenizer_processor_step":
                step.clear()
                step.update({"class": NO_STATE_TEXT, "config": {}})
                replaced += 1
        if replaced != 1:
            raise RuntimeError("LeRobot's pi05 preprocessor has no step that writes the state into the prompt")
        file.write_text(json.dumps(pipeline, indent=2) + "\n")


def carry_tokenizer(directory: Path, tokenizer: Path, vocabulary: int) -> None:
    """Copies the tokenizer into `tokenizer/`, and into `hub/` in the form of the hub's cache.

    Raises:
        UserError: it does not load, or has words that the model has no embedding of.
    """
    from transformers import AutoTokenizer

    try:
        loaded: Any = AutoTokenizer.from_pretrained(str(tokenizer))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"--tokenizer {tokenizer}: transformers cannot load it: {reason}") from error
    highest = max(loaded.get_vocab().values())
    if highest >= vocabulary:
        raise UserError(f"--tokenizer {tokenizer}: it has a token {highest}, and the model embeds {vocabulary}.")
    plain = directory / "tokenizer"
    loaded.save_pretrained(plain)
    files = sorted(path for path in plain.iterdir() if path.is_file())
    name = hashlib.sha1(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()
    cache = directory / HUB / f"models--{TOKENIZER.replace('/', '--')}"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(name)
    snapshot = cache / "snapshots" / name
    snapshot.mkdir(parents=True)
    for path in files:
        shutil.copyfile(path, snapshot / path.name)
    if not (snapshot / "config.json").is_file():
        (snapshot / "config.json").write_text(
            "{}\n"
        )  # AutoTokenizer looks into it first, and offline does without no file


def notes(sizes: Sizes, told: Answers) -> list[str]:
    """What differs between the two frameworks around the model, and is not the weights' to mend."""
    found = [
        "openpi resizes pictures with PIL, LeRobot without antialiasing: resize to "
        f"{sizes.vision.image}x{sizes.vision.image} with PIL before the policy where the difference matters.",
    ]
    if sizes.family == "pi0" or not told.discrete_state:
        found.append(
            "openpi strips the prompt and turns `_` and line breaks into spaces, LeRobot sends it as it is: send it so."
        )
    if told.tokenizer is None:
        found.append(f"The tokenizer does not travel along: LeRobot fetches {TOKENIZER} from the hub, which is gated.")
    else:
        found.append(
            f"LeRobot reads the tokenizer by its hub id: set HF_HUB_CACHE to the folder {HUB} of this directory."
        )
    if not sizes.published:
        found.append(
            "LeRobot's configuration cannot say this model's sizes: its classes must be changed before they load it."
        )
    return found


def write_readme(directory: Path, origin: str, sizes: Sizes, told: Answers) -> None:
    """README.md of the directory."""
    cameras = "\n".join(f"| {camera} | `{feature}` |" for camera, feature in told.cameras.items())
    name = "pi0" if sizes.family == "pi0" else "pi0.5"
    relative = "".join("r" if flag else "a" for flag in told.relative)
    remarks = "\n".join(f"- {note}" for note in notes(sizes, told))
    (directory / "README.md").write_text(
        f"""---
library_name: lerobot
pipeline_tag: robotics
---

# {name}, converted from openpi

Converted from {origin}. Loads in LeRobot 0.6.1 as `--policy.path=path/to/this/directory`.

| openpi's camera | LeRobot's feature |
|---|---|
{cameras}

State {told.state_dim} wide, actions {told.action_dim} wide, {told.chunk} per prediction. Dimensions of an action (a absolute, r relative to
the state): `{relative}`.

{remarks}

`verification.json` has the largest difference between this policy's actions, loaded in a fresh process, and those of the original;
`conversion.json` what the conversion was told.
"""
    )
