"""README.md of a package: what it is, how to load it, what it was checked against."""

from pathlib import Path
from typing import Literal

from ..modeling.composed import ComposedVLA
from .checkpoint import Packable

LOAD = {
    "hf": """```python
from transformers import AutoModel

policy = AutoModel.from_pretrained("path/to/this/directory", trust_remote_code=True)
actions = policy.predict_action(
    images={{{cameras}}},  # uint8 [H, W, 3], RGB
    instruction="...",{state}
)  # float32 [{chunk}, {action_dim}] in the robot's own units
```""",
    "lerobot": """```sh
pip install ./lerobot_policy_vla_composed
```

Then LeRobot's own tools load the policy directory: `lerobot-eval --policy.path=path/to/policy ...`. The tokenizer is in the directory,
nothing is fetched.""",
}


def write_card(directory: Path, checkpoint: Packable[ComposedVLA], *, kind: Literal["hf", "lerobot"]) -> None:
    """Writes README.md."""
    pipeline, config = checkpoint.plan["pipeline"], checkpoint.model.config
    cameras = ", ".join(f'"{camera}": {camera}_image' for camera in config.cameras)
    state = f"\n    state=state,  # [{config.state_dim}] in the robot's own units" if config.state_dim else ""
    load = LOAD[kind].format(cameras=cameras, state=state, chunk=config.chunk, action_dim=config.action_dim)
    datasets = "\n".join(
        f"- `{dataset['name']}`, weight {dataset['weight']:g}, cameras {dataset['cameras']}"
        for dataset in pipeline["datasets"]
    )
    modules = "\n".join(
        f"| {module['name']} | {module['lr']} | {module['weightDecay']} | {module['dtype']} |"
        for module in pipeline["modules"]
    )
    (directory / "README.md").write_text(
        f"""---
library_name: {"transformers" if kind == "hf" else "lerobot"}
pipeline_tag: robotics
---

# {pipeline["name"]}

Packed from `{checkpoint.path.name}` of plan `{checkpoint.plan["hash"][:8]}`: {checkpoint.update} of {pipeline["training"]["updates"]} updates,
{pipeline["training"]["globalBatch"]} samples each.

{load}

Trained on

{datasets}

| module | learning rate | weight decay | compute dtype |
|---|---|---|---|
{modules}

Normalisation and its statistics travel in this directory. `verification.json` has the largest difference between this package, reloaded in
a fresh process, and the trainer's own actions on a reference batch.
"""
    )
