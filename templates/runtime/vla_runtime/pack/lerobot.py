"""The `lerobot` package: an installable policy plugin and one complete policy directory per dataset, through LeRobot's own writers.

<out>/lerobot_policy_vla_composed/     pip install it where the policy is to run
<out>/policy/                          config.json, model.safetensors, both processors with their state, tokenizer/, plan.json
<out>/policy-<dataset>/                instead, where the run had several datasets: the weights are one file, hard-linked
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from ..modeling.composed import ComposedVLA
from ..modeling.observe import image_size
from ..modeling.tokenization import load_tokenizer
from ..partition import DType
from ..statistics import effective_statistics
from .card import write_card
from .checkpoint import Packable
from .compare import verify_package
from .hf import fresh_directory, replace

PLUGIN = "lerobot_policy_vla_composed"
MODES = {"meanStd": "MEAN_STD", "minMax": "MIN_MAX", "quantiles": "QUANTILES", "identity": "IDENTITY"}


def lerobot(checkpoint: Packable[ComposedVLA], out: Path, *, dtype: DType, action_steps: int) -> None:
    """Writes and verifies the package.

    Args:
        checkpoint: what is packed.
        out: directory; a package that is there is replaced.
        dtype: of the weights.
        action_steps: actions of a chunk that are executed before the policy is asked again.

    Raises:
        UserError: the reloaded package does not act as the trainer did.
    """
    partial = fresh_directory(out)
    write_plugin(partial / PLUGIN)
    datasets = checkpoint.plan["pipeline"]["datasets"]
    first: Path | None = None
    for dataset in datasets:
        directory = partial / ("policy" if len(datasets) == 1 else f"policy-{dataset['name']}")
        _write_policy(directory, checkpoint, dataset, dtype, action_steps, first)
        first = first or directory
    write_card(partial, checkpoint, kind="lerobot")
    replace(out, partial)
    verify_package(out, checkpoint, dtype)


def write_plugin(directory: Path) -> None:
    """The plugin as a project that pip installs: LeRobot finds it by its name."""
    package = directory / PLUGIN
    runtime = Path(__file__).parent.parent
    for folder in ("lerobot_plugin", "modeling"):
        shutil.copytree(runtime / folder, package / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "modeling" / "modeling_vla.py").unlink()  # the class for transformers is not needed here
    (package / "__init__.py").write_text(
        '"""LeRobot policy of type `vla_composed`; importing it registers the policy."""\n\nfrom .lerobot_plugin import *  # noqa: F403\n'
    )
    (directory / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools>=68"]\nbuild-backend = "setuptools.build_meta"\n\n'
        f'[project]\nname = "{PLUGIN}"\nversion = "0.1.0"\ndescription = "A composed vision-language-action policy for LeRobot"\n'
        f'requires-python = ">=3.12"\ndependencies = ["lerobot>=0.6.1,<0.7", "transformers>=5.4,<5.6", "timm>=1.0"]\n\n'
        f'[tool.setuptools]\npackages = ["{PLUGIN}", "{PLUGIN}.lerobot_plugin", "{PLUGIN}.modeling"]\n'
    )


def _write_policy(
    directory: Path,
    checkpoint: Packable[ComposedVLA],
    dataset: dict[str, Any],
    dtype: DType,
    action_steps: int,
    weights_of: Path | None,
) -> None:
    from lerobot.configs import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.factory import make_pre_post_processors

    from .. import lerobot_plugin

    config, recipes = checkpoint.model.config.self_contained(), checkpoint.normalization[dataset["name"]]
    size = image_size(config)
    sizes = dataset["cameraSizes"] if "unknown" not in dataset["cameraSizes"] else {}
    inputs = {
        feature: PolicyFeature(type=FeatureType.VISUAL, shape=(3, *sizes.get(feature, (size, size))))
        for feature in dataset["cameras"].values()
    }
    mapping = {"VISUAL": NormalizationMode.IDENTITY, "ACTION": NormalizationMode[MODES[recipes["action"]["mode"]]]}
    state = dataset["state"] if config.state_dim else None
    if state is not None:
        inputs[state] = PolicyFeature(type=FeatureType.STATE, shape=(config.state_dim,))
        mapping["STATE"] = NormalizationMode[MODES[recipes["state"]["mode"]]]
    policy_config = lerobot_plugin.VLAComposedConfig(
        input_features=inputs,
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(config.action_dim,))},
        device="cpu",
        push_to_hub=False,
        vla=config.to_dict(),
        cameras=dict(dataset["cameras"]),
        state=state,
        crop=checkpoint.crop,
        clip_state=state is not None
        and recipes["state"]["clip"]
        and recipes["state"]["mode"] in ("minMax", "quantiles"),
        n_action_steps=action_steps,
        normalization_mapping=mapping,
    )
    directory.mkdir()
    if weights_of is None:
        with torch.device("meta"):
            policy = lerobot_plugin.VLAComposedPolicy(policy_config)
        policy.save_pretrained(directory, state_dict=checkpoint.exported(dtype))
    else:
        policy_config.save_pretrained(directory)
        os.link(weights_of / "model.safetensors", directory / "model.safetensors")
    statistics = {"action": effective_statistics(recipes["action"], inverse=True)}
    if state is not None:
        statistics[state] = effective_statistics(recipes["state"], inverse=False)
    before, after = make_pre_post_processors(policy_config, dataset_stats=statistics)
    before.save_pretrained(directory)
    after.save_pretrained(directory)
    load_tokenizer(config.language).save_pretrained(directory / "tokenizer")
    (directory / "plan.json").write_text(json.dumps(checkpoint.plan, indent=2) + "\n")
