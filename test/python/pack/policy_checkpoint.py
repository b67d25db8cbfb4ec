"""A checkpoint of a LeRobot policy after two updates, as the runtime writes it, from one process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from dataset_fixture import LENGTHS, FakeMesh, FakeRun
from lerobot.policies.pretrained import PreTrainedPolicy
from safetensors.torch import save_file
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save
from vla_runtime import checkpoints
from vla_runtime.data import Dataset
from vla_runtime.lora import adapt
from vla_runtime.pack.checkpoint import Packable, open_checkpoint
from vla_runtime.partition import Module, Partition
from vla_runtime.policies.samples import policy_samples
from vla_runtime.policies.spec import PolicySpec, build_policy
from vla_runtime.policies.training import prepare

MODULES = [Module("all", ["*"], lr=1e-3)]


@dataclass
class Trained:
    """A checkpoint, the declaration of its policy, and where the data lies."""

    path: Path
    spec: PolicySpec
    roots: dict[str, str]
    modules: Sequence[Module]

    def open(self) -> Packable[PreTrainedPolicy]:
        """As pack.py does."""
        return open_checkpoint(self.path, lambda: build_policy(self.spec), self.modules)


def train(
    folder: Path,
    spec: PolicySpec,
    cameras: dict[str, dict[str, str]] | None = None,
    modules: Sequence[Module] = MODULES,
    **plan: Any,
) -> Trained:
    """Two updates on a dataset for each entry of `cameras`: name -> camera -> feature; default: one dataset with its own camera names.

    Args:
        folder: where datasets and checkpoint go.
        spec: the policy.
        cameras: datasets and their camera maps.
        modules: the declaration of train.py.
        plan: fields of the plan's `pipeline` that differ.
    """
    torch.set_num_threads(1)
    maps = cameras or {"one": {camera: f"observation.{camera}_image" for camera in spec.cameras}}
    roots = {}
    for number, name in enumerate(maps):
        roots[name] = str(folder / name)
        record(folder / name, spec, [maps[name][camera] for camera in spec.cameras], seed=number)
    samples = policy_samples(
        [
            Dataset(name, cameras=cams, state="observation.state", action="action", root=roots[name])
            for name, cams in maps.items()
        ],
        policy=spec,
        run=FakeRun(),  # type: ignore[arg-type]
        mesh=FakeMesh(0, 1),  # type: ignore[arg-type]
        constant="refuse",
        global_batch=4,
        micro_batch=4,
        seed=3,
    )
    torch.manual_seed(5)
    policy: Any = build_policy(spec)
    prepare(policy, spec)
    partition = Partition(policy, modules)
    if any(module.lora is not None for module in modules):
        adapt(policy, partition, seed=7).initialise()
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(2):
        for batch in samples.next_update(1):
            (policy(batch) / policy.valid_count(batch)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    path = folder / "checkpoints" / checkpoints.step_name(2)
    with patch.object(checkpoints.dist, "get_rank", lambda: 0):
        reference = checkpoints._reference(policy, samples)
    assert reference is not None
    tensors = {f"model.{name}": tensor for name, tensor in checkpoints._model_tensors(policy, partition)}
    path.mkdir(parents=True)
    save(tensors, storage_writer=FileSystemWriter(path), no_dist=True)
    save_file(reference["tensors"], path / "reference.safetensors")
    documents = {
        "reference.json": reference["rest"],
        "plan.json": plan_of(spec, maps, roots, **plan),
        "training.json": {},
    }
    for name, content in documents.items():
        (path / name).write_text(json.dumps(content))
    sizes = {file.name: file.stat().st_size for file in path.iterdir()}
    (path / checkpoints.MARKER).write_text(json.dumps({"format": checkpoints.FORMAT, "update": 2, "files": sizes}))
    return Trained(path, spec, roots, modules)


def record(root: Path, spec: PolicySpec, cameras: Sequence[str], seed: int) -> None:
    """Four short episodes of random pictures, states and actions, written by LeRobot."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    sizes = dict(zip(cameras, (spec.image_sizes[camera] for camera in spec.cameras), strict=True))
    axes = ["x", "y", "z", "u", "v", "w"]
    dataset = LeRobotDataset.create(
        repo_id="local/test",
        fps=10,
        root=root,
        use_videos=False,
        robot_type="arm",
        features={
            **{
                name: {"dtype": "image", "shape": (*size, 3), "names": ["height", "width", "channels"]}
                for name, size in sizes.items()
            },
            "observation.state": {"dtype": "float32", "shape": (spec.state_dim,), "names": axes[: spec.state_dim]},
            "action": {"dtype": "float32", "shape": (spec.action_dim,), "names": axes[: spec.action_dim]},
        },
    )
    random = np.random.default_rng(seed)
    for episode, length in enumerate(LENGTHS):
        for _ in range(length):
            frame: dict[str, Any] = {
                name: random.integers(0, 255, (*size, 3), dtype=np.uint8) for name, size in sizes.items()
            }
            frame["observation.state"] = random.normal(seed, 1 + seed, spec.state_dim).astype(np.float32)
            frame["action"] = random.normal(-seed, 2 + seed, spec.action_dim).astype(np.float32)
            dataset.add_frame({**frame, "task": "open the drawer" if episode % 2 else "close it"})
        dataset.save_episode()
    dataset.finalize()


def plan_of(spec: PolicySpec, maps: dict[str, dict[str, str]], roots: dict[str, str], **changes: Any) -> dict[str, Any]:
    """plan.json of such a run."""

    def statistics(root: str) -> dict[str, Any]:
        whole = json.loads((Path(root) / "meta" / "stats.json").read_text())
        return {feature: whole[feature] for feature in ("action", "observation.state")}

    module = {
        "name": "all",
        "parameters": ["*"],
        "lr": 1e-3,
        "weightDecay": 1e-2,
        "dtype": "fp32",
        "freeze": [{"from": 0, "trains": "all", "rewarm": 0}],
        "adapt": None,
        "count": 1000,
        "deadCount": 0,
    }
    pipeline = {
        "name": "small",
        "model": {"family": "lerobot", "type": spec.type, "weights": None, "images": "imagenet"},
        "datasets": [
            {
                "name": name,
                "repo": None,
                "root": roots[name],
                "revision": None,
                "weight": 1,
                "cameras": cameras,
                "state": "observation.state",
                "action": "action",
                "selected": None,
                "holdout": [3],
                "fps": 10,
                "episodes": 4,
                "frames": 27,
                "fingerprint": "0" * 64,
                "statistics": statistics(roots[name]),
            }
            for name, cameras in maps.items()
        ],
        "augment": None,
        "loader": {"workers": 0},
        "modules": [module],
        "parallel": {"kind": "fsdp2", "shard": "full", "world": 2},
        "training": {
            "updates": 2,
            "globalBatch": 4,
            "accumulation": 1,
            "optimizer": {"kind": "adamw", "betas": [0.9, 0.95], "eps": 1e-8, "decayBiasAndNorm": False},
            "schedule": {"kind": "constant", "warmup": 1},
            "clip": 1.0,
            "seed": 3,
        },
        "checkpoint": {"every": 1, "keep": 1},
        **changes,
    }
    return {"schemaVersion": 1, "hash": "0123456789abcdef", "notes": {}, "pipeline": pipeline}
