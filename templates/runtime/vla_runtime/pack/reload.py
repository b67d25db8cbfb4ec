"""Opens a package the way its user would. Stands alone: verification runs this file in a process that has none of our code on its path.

python -I reload.py <package> <checkpoint with the reference> <out.safetensors>
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch


class PackagedPolicy(Protocol):
    """What a rollout needs of a package."""

    def act(
        self,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None,
        dataset: str | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """camera -> uint8 [H, W, 3], words, state [S] in the robot's units -> actions float32 [C, A] in the robot's units."""
        ...


class HuggingFacePackage:
    """An `hf` package, through `AutoModel.from_pretrained`."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoModel

        self._model = AutoModel.from_pretrained(str(directory), trust_remote_code=True)

    def act(
        self,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None,
        dataset: str | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """See `PackagedPolicy.act`."""
        return self._model.predict_action(images, instruction, state, dataset=dataset, noise=noise)


class LeRobotPackage:
    """A `lerobot` package, through LeRobot's own loader and processors."""

    def __init__(self, directory: Path, dataset: str | None = None) -> None:
        plugin = next(path for path in sorted(directory.glob("lerobot_policy_*")) if path.is_dir())
        sys.path.insert(0, str(plugin))  # a user installs it: pip install <package>/lerobot_policy_...
        __import__(plugin.name)
        from lerobot.configs.policies import PreTrainedConfig
        from lerobot.policies.factory import get_policy_class, make_pre_post_processors

        policies = sorted(directory.glob("policy*"))
        wanted = directory / (f"policy-{dataset}" if dataset is not None and len(policies) > 1 else policies[0].name)
        config: Any = PreTrainedConfig.from_pretrained(str(wanted))
        config.pretrained_path = wanted
        config.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._policy: Any = get_policy_class(config.type).from_pretrained(str(wanted), config=config, strict=True)
        overrides = {"device_processor": {"device": config.device}}
        self._before, self._after = make_pre_post_processors(
            config, pretrained_path=str(wanted), preprocessor_overrides=overrides
        )
        self._cameras: dict[str, str] = dict(config.cameras)
        self._state: str | None = config.state

    def act(
        self,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None,
        dataset: str | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """See `PackagedPolicy.act`. The dataset was chosen when the package was opened."""
        observation: dict[str, Any] = {
            feature: torch.as_tensor(np.ascontiguousarray(images[camera])).permute(2, 0, 1).float() / 255
            for camera, feature in self._cameras.items()
        }
        if self._state is not None and state is not None:
            observation[self._state] = torch.as_tensor(np.asarray(state, dtype=np.float32))
        batch = self._before({**observation, "task": instruction})
        chunk = self._policy.predict_action_chunk(batch, noise=None if noise is None else torch.as_tensor(noise)[None])
        return np.stack([self._after(action).reshape(-1).numpy() for action in chunk[0].unbind(0)])


def open_policy(directory: Path, dataset: str | None = None) -> PackagedPolicy:
    """A package by what lies in its directory.

    Args:
        directory: what pack.py wrote.
        dataset: for which the policy is to act, where the package has a policy directory for each.

    Raises:
        FileNotFoundError: it is no package, or has several policies and none is chosen.
    """
    if (directory / "policy_preprocessor.json").is_file():
        from .stock import StockPolicy

        return StockPolicy(directory)
    if (directory / "config.json").is_file():
        return HuggingFacePackage(directory)
    if any(directory.glob("policy*/config.json")):
        return LeRobotPackage(directory, dataset)
    policies = sorted(path.parent.name for path in directory.glob("*/policy_preprocessor.json"))
    if dataset in policies:
        return open_policy(directory / dataset)
    if policies:
        raise FileNotFoundError(
            f"{directory} holds a policy for each of {', '.join(policies)}: name one of these folders."
        )
    raise FileNotFoundError(
        f"{directory} is no package: neither config.json nor policy*/config.json is there. Run pack.py first."
    )


def main(package: str, checkpoint: str, out: str) -> None:
    """Computes the actions of the reference batch and writes them, with what the process found on its path."""
    from safetensors.torch import load_file, save_file

    foreign = [name for name in sys.modules if name.split(".")[0] == "vla_runtime"]
    if foreign:
        raise RuntimeError(f"this process was to be free of the trainer's code, but has {foreign}")
    torch.set_num_threads(1)
    reference = load_file(Path(checkpoint) / "reference.safetensors")
    rest = json.loads((Path(checkpoint) / "reference.json").read_text())
    cameras = {name.removeprefix("images."): tensor for name, tensor in reference.items() if name.startswith("images.")}
    policies: dict[str, PackagedPolicy] = {}
    chunks = []
    for index, (instruction, dataset) in enumerate(zip(rest["instructions"], rest["datasets"], strict=True)):
        if dataset not in policies:
            policies[dataset] = open_policy(Path(package), dataset)
        images = {camera: tensor[index].permute(1, 2, 0).numpy() for camera, tensor in cameras.items()}
        state = reference["state"][index].numpy() if "state" in reference else None
        noise = reference["noise"][index].numpy() if "noise" in reference else None
        chunks.append(torch.as_tensor(policies[dataset].act(images, instruction, state, dataset, noise)))
    save_file({"actions": torch.stack(chunks).contiguous()}, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
