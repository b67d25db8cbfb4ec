"""README.md of a policy directory: how stock LeRobot loads it, what it was trained on, what it was checked against."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..partition import DType
from ..policies.spec import PolicySpec
from .assets import HUB
from .train_config import differences


def write_policy_card(
    directory: Path,
    plan: Mapping[str, Any],
    checkpoint: str,
    update: int,
    spec: PolicySpec,
    dataset: Mapping[str, Any],
    dtype: DType,
) -> None:
    """Writes README.md.

    Args:
        directory: the policy directory, complete but for this.
        plan: plan.json.
        checkpoint: name of the checkpoint's directory.
        update: updates after which it was written.
        spec: the declaration, as exported.
        dataset: the plan's node of the dataset that the directory is for.
        dtype: of the weights.
    """
    pipeline = plan["pipeline"]
    names = json.loads((directory / "train_config.json").read_text())["rename_map"]
    hub = (directory / HUB).is_dir()
    sections = [
        _head(pipeline, plan, checkpoint, update, spec, dtype),
        _loading(spec, hub),
        _naming(names, spec),
        _embodiment(directory),
        _training(pipeline),
        _going_on(pipeline, spec, names, hub),
        "## Checked\n\n`verification.json`: this directory was loaded by stock LeRobot in a fresh process, offline; its weights were "
        "compared bit by bit with the checkpoint's, and the answers of `predict_action_chunk`, `select_action` and the postprocessor "
        "with the trainer's own actions for samples of the data.",
    ]
    (directory / "README.md").write_text("\n\n".join(sections) + "\n")


def _head(
    pipeline: Mapping[str, Any], plan: Mapping[str, Any], checkpoint: str, update: int, spec: PolicySpec, dtype: DType
) -> str:
    steps = (
        ""
        if spec.plugin is None
        else f"\n\nThe type `{spec.type}` is registered by the Python package `{spec.plugin}`: install it too."
    )
    return f"""---
library_name: lerobot
pipeline_tag: robotics
tags: [lerobot, {spec.type}]
---

# {pipeline["name"]}

A LeRobot policy of type `{spec.type}` in {dtype}, from `{checkpoint}` of plan `{plan["hash"][:8]}`: {update} of
{pipeline["training"]["updates"]} updates, {pipeline["training"]["globalBatch"]} samples each. `plan.json` has every setting.{steps}"""


def _loading(spec: PolicySpec, hub: bool) -> str:
    environment = f"HF_HUB_CACHE=$PWD/{HUB} HF_HUB_OFFLINE=1 " if hub else ""
    offline = (
        f"LeRobot reads tokenizers and base configurations by their hub names. They are in `{HUB}/`, in the form of the hub's cache: set "
        "`HF_HUB_CACHE` before Python starts, as below, or copy the folders in it into your own cache. `tokenizer/` is the tokenizer as a "
        "plain folder, for other programs.\n\n"
        if hub
        else ""
    )
    plugin = "" if spec.plugin is None else f"import {spec.plugin}\n"
    return f"""## Loading

{offline}```sh
cd path/to/this/directory
{environment}python
```

```python
{plugin}from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

config = PreTrainedConfig.from_pretrained(".")
policy = get_policy_class(config.type).from_pretrained(".", config=config)
before, after = make_pre_post_processors(config, ".", preprocessor_overrides={{"device_processor": {{"device": config.device}}}})
action = after(policy.select_action(before(observation)))  # observation: features as below, "task": "..."
```"""


def _naming(names: Mapping[str, str], spec: PolicySpec) -> str:
    features = ", ".join(f"`{feature}`" for feature in spec.features() if feature != "action")
    if not names:
        return f"## Names\n\nThe policy reads {features}, which are the dataset's own names."
    pairs = "\n".join(f"| `{theirs}` | `{ours}` |" for theirs, ours in names.items())
    return f"""## Names

The policy reads {features}. The preprocessor takes the dataset's names and renames them:

| dataset | policy |
|---|---|
{pairs}

LeRobot's commands replace that step with what their own flag says, so give it to each of them (and write your robot's names on the left
if they are others):

```sh
lerobot-eval --policy.path=path/to/this/directory --rename_map='{json.dumps(dict(names))}' ...
```"""


def _embodiment(directory: Path) -> str:
    described = json.loads((directory / "embodiment.json").read_text())
    rate = "unknown" if described["controlRateHz"] is None else f"{described['controlRateHz']:g} Hz"
    rows = []
    for role in ("state", "action"):
        for i, dimension in enumerate(described[role]["dimensions"] if described[role] else []):
            low, high = (dimension[key] for key in ("min", "max"))
            limits = "" if low is None or high is None else f"{low:.4g} to {high:.4g}"
            rows.append(f"| {role} {i} | {dimension['name'] or ''} | {dimension['unit'] or ''} | {limits} |")
    cameras = ", ".join(f"{name} ({c['height']} x {c['width']})" for name, c in described["cameras"].items())
    relative = (
        " Actions are relative to the state of the frame from which a chunk was planned: LeRobot's rollouts need `--inference.type=rtc`, "
        "and in `lerobot-eval`, whose queue adds the state of a later frame, `--policy.n_action_steps=1`."
        if described["action"]["relativeToState"]
        else ""
    )
    return f"""## Robot

Control rate {rate}; cameras {cameras}. Limits are those of the data, in its units; `embodiment.json` has them with quantiles.{relative}

| dimension | name | unit | in the data |
|---|---|---|---|
""" + "\n".join(rows)


def _training(pipeline: Mapping[str, Any]) -> str:
    datasets = "\n".join(
        f"- `{dataset['name']}`{'' if dataset['repo'] is None else f' ({dataset["repo"]})'}, weight {dataset['weight']:g}, "
        f"{_count(dataset['episodes'])} episodes, {_count(dataset['frames'])} frames"
        for dataset in pipeline["datasets"]
    )
    modules = "\n".join(
        f"| {module['name']} | {_trains(module)} | {module['lr']} | {module['weightDecay']} | {module['dtype']} |"
        for module in pipeline["modules"]
    )
    start = pipeline["model"]["weights"]
    began = "from initial values" if start is None else f"from `{start['source']}`"
    return f"""## Training

{datasets}

Training began {began}.

| module | trained | learning rate | weight decay | compute dtype |
|---|---|---|---|---|
{modules}"""


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "unknown"


def _trains(module: Mapping[str, Any]) -> str:
    phases = []
    for phase in module["freeze"]:
        what = phase["trains"]
        word = f"last {what['lastLayers']} blocks" if isinstance(what, dict) else {"all": "yes", "none": "no"}[what]
        phases.append(word if phase["from"] == 0 else f"from update {phase['from']} {word}")
    adapter = module["adapt"]
    return ", ".join(phases) + ("" if adapter is None else f", LoRA of rank {adapter['rank']}, merged")


def _going_on(pipeline: Mapping[str, Any], spec: PolicySpec, names: Mapping[str, str], hub: bool) -> str:
    said = differences(pipeline)
    normalised = spec.normalization.get("VISUAL", "IDENTITY") != "IDENTITY"
    if normalised and any(ours.startswith("observation.images.") for ours in names.values()):
        said.append(
            "It looks statistics up under the dataset's names: a camera that is renamed is not normalised while it trains. Rename the "
            "feature in the dataset first."
        )
    unlike = "\n".join(f"- {sentence}" for sentence in said)
    listed = f"\n\nLeRobot's trainer does this differently:\n\n{unlike}" if said else ""
    environment = f"HF_HUB_CACHE=path/to/this/directory/{HUB} " if hub else ""
    return f"""## Going on with lerobot-train

`train_config.json` has the plan's values in LeRobot's terms; `--policy.path` says from which weights.

```sh
{environment}lerobot-train --config_path=path/to/this/directory/train_config.json --policy.path=path/to/this/directory \\
  --dataset.root=path/to/dataset --output_dir=outputs/train
```{listed}"""
