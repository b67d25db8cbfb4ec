"""Opens a policy directory with stock LeRobot, the way its user would.

Stands alone: verification runs this file in a process that has none of the trainer's code on its path.

    python -I stock.py <job.json> <out.safetensors>
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

HUB = "hub"


def use_hub_folder(directory: Path) -> None:
    """Makes this process and its children read tokenizers and base models from the package. Call it before LeRobot is imported."""
    if (directory / HUB).is_dir():
        os.environ["HF_HUB_CACHE"] = str((directory / HUB).resolve())
        os.environ["HF_HUB_OFFLINE"] = "1"


def is_policy_directory(directory: Path) -> bool:
    """Whether LeRobot wrote this: a configuration and a preprocessor."""
    return all((directory / name).is_file() for name in ("config.json", "policy_preprocessor.json"))


class StockPolicy:
    """A policy directory through LeRobot's own loader, processors and action queue.

    Args:
        directory: holds config.json, model.safetensors and both processors.
        device: `cpu`, `cuda`, ...; default: a GPU where there is one.
        plugin: Python package that registers the policy's type; default: the one that embodiment.json names.

    Attributes:
        config: LeRobot's configuration of the policy.
        policy: LeRobot's policy.
    """

    def __init__(self, directory: Path, device: str | None = None, plugin: str | None = None) -> None:
        use_hub_folder(directory)
        from lerobot.configs.policies import PreTrainedConfig
        from lerobot.policies.factory import get_policy_class, make_pre_post_processors
        from lerobot.utils.import_utils import register_third_party_plugins

        described = _embodiment(directory)
        plugin = plugin or (described or {}).get("policy", {}).get("plugin")
        if plugin is not None:
            importlib.import_module(plugin)
        register_third_party_plugins()
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        config: Any = PreTrainedConfig.from_pretrained(str(directory), cli_overrides=[f"--device={device}"])
        config.pretrained_path = directory
        self.config = config
        self.policy: Any = get_policy_class(config.type).from_pretrained(str(directory), config=config, strict=True)
        self.policy.eval()
        self._before, self._after = make_pre_post_processors(
            config, pretrained_path=str(directory), preprocessor_overrides={"device_processor": {"device": device}}
        )
        self._features, self._state = _names(described, config)
        # A relative action belongs to the state of the frame from which its chunk was planned.
        steps: Sequence[Any] = self._after.steps
        self._relative = any(getattr(step, "relative_step", None) and step.enabled for step in steps)
        self._planned: list[Tensor] = []
        asking = _beside("policies/predict.py")
        self._predict, self._asked_through_queues = asking.predict_chunk, asking._through_queues

    def reset(self) -> None:
        """Begins an episode."""
        self._planned = []
        self.policy.reset()
        self._before.reset()
        self._after.reset()

    def observe(self, images: Mapping[str, np.ndarray], instruction: str, state: np.ndarray | None) -> dict[str, Any]:
        """One observation, named as the dataset names it, through the preprocessor.

        Args:
            images: camera -> uint8 [H, W, 3], RGB; [T, H, W, 3] with a time dimension.
            state: [S] or [T, S] in the robot's units.
        """
        return self._observe(self._features, self._state, images, instruction, state)

    def names_arrive(self, images: Mapping[str, np.ndarray], instruction: str, state: np.ndarray | None) -> bool:
        """Whether the dataset's names bring every picture and state where the policy's own names bring them.

        Actions alone do not show that: a policy that does not tell its cameras apart answers alike when they are swapped.
        """
        theirs = self.observe(images, instruction, state)
        steps: list[Any] = [step for step in self._before.steps if hasattr(step, "rename_map")]
        maps = [step.rename_map for step in steps]
        for step in steps:
            step.rename_map = {}
        cameras = {camera: f"observation.images.{camera}" for camera in self._features}
        ours = self._observe(cameras, self._state and "observation.state", images, instruction, state)
        for step, names in zip(steps, maps, strict=True):
            step.rename_map = names
        read = [name for name in self.config.input_features if name in ours]
        return bool(read) and all(name in theirs and torch.equal(theirs[name], ours[name]) for name in read)

    def _observe(
        self,
        features: Mapping[str, str],
        state_feature: str | None,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None,
    ) -> dict[str, Any]:
        observation: dict[str, Any] = {}
        for camera, feature in features.items():
            picture = torch.as_tensor(np.ascontiguousarray(images[camera]))
            observation[feature] = picture.movedim(-1, -3).to(torch.float32) / 255.0
            if picture.ndim == 4:
                observation[feature] = observation[feature][None]
        if state_feature is not None and state is not None:
            values = torch.as_tensor(np.asarray(state, dtype=np.float32))
            observation[state_feature] = values[None] if values.ndim == 2 else values
        return self._before({**observation, "task": instruction})

    def step(self, images: Mapping[str, np.ndarray], instruction: str, state: np.ndarray | None) -> np.ndarray:
        """The next action float32 [A] in the robot's units; LeRobot's queue decides when the policy is asked again.

        Relative actions are planned here: LeRobot's queue would add the present state to an action that was planned from an earlier one.
        """
        if self._relative:
            if not self._planned:
                chunk = self.chunk(self.observe(images, instruction, state), None)
                self._planned = list(self.in_units(chunk)[: self.config.n_action_steps])
            return self._planned.pop(0).numpy()
        with torch.no_grad():
            action = self._after(self.policy.select_action(self.observe(images, instruction, state)))
        return action.reshape(-1).to("cpu", torch.float32).numpy()

    def act(
        self,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None,
        dataset: str | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """A chunk of actions float32 [C, A] in the robot's units, from a fresh episode on. The dataset is the directory's."""
        inputs = self.observe(images, instruction, state)
        chunk = self.chunk(inputs, None if noise is None else torch.as_tensor(noise)[None])
        return self.in_units(chunk).numpy()

    def chunk(self, inputs: Mapping[str, Any], noise: Tensor | None) -> Tensor:
        """What `predict_action_chunk` answers [1, C, A], normalised."""
        with torch.no_grad():
            return self._predict(self.policy, inputs, noise)

    def selected(self, inputs: Mapping[str, Any], noise: Tensor | None, seed: int | None) -> Tensor:
        """What `select_action` answers until its queue is empty [n, A], normalised, as a robot's loop gets it.

        Where the inputs have a time dimension, the earlier observations are shown first, and what is planned from them is dropped.
        """
        config, policy = self.config, self.policy
        ensembled = getattr(config, "temporal_ensemble_coeff", None) is not None
        count = 1 if ensembled else int(getattr(config, "n_action_steps", 1))
        if self._asked_through_queues(policy):  # the chunk came out of `select_action` already
            _seed(seed)
            return self.chunk(inputs, noise)[0, :count]
        steps = 1 if config.observation_delta_indices is None else len(config.observation_delta_indices)
        policy.reset()
        actions: list[Tensor] = []
        shown: dict[str, Any] = {}
        more: dict[str, Tensor] = {}
        if noise is not None and "noise" in inspect.signature(policy.select_action).parameters:
            more["noise"] = noise
        elif noise is not None:  # it asks `predict_action_chunk`, which takes noise, without handing any on
            policy.predict_action_chunk = functools.partial(type(policy).predict_action_chunk, policy, noise=noise)
        with torch.no_grad():
            for step in range(steps):
                shown = {
                    name: value[:, step] if steps > 1 and name in config.input_features else value
                    for name, value in inputs.items()
                    if name != "action" and not name.endswith("_is_pad")
                }
                if step:
                    policy._queues["action"].clear()
                _seed(seed)
                actions = [policy.select_action(dict(shown), **more)]
            actions += [policy.select_action(dict(shown), **more) for _ in range(count - 1)]
        policy.__dict__.pop("predict_action_chunk", None)
        return torch.cat(actions)

    def in_units(self, chunk: Tensor) -> Tensor:
        """Actions [1, C, A] of the policy through the postprocessor, one by one: float32 [C, A] in the robot's units."""
        return torch.stack(
            [self._after(action).reshape(-1).to("cpu", torch.float32) for action in chunk[0].unsqueeze(1)]
        )

    def same_tokens(self, instruction: str) -> bool | None:
        """Whether the plain folder `tokenizer` gives the same tokens as the preprocessor's; None without a tokenizer."""
        folder = Path(str(self.config.pretrained_path)) / "tokenizer"
        steps: list[Any] = [step for step in self._before.steps if getattr(step, "input_tokenizer", None) is not None]
        if not folder.is_dir() or not steps:
            return None
        from transformers import AutoTokenizer

        plain = AutoTokenizer.from_pretrained(str(folder))
        return plain(instruction)["input_ids"] == steps[0].input_tokenizer(instruction)["input_ids"]


def _embodiment(directory: Path) -> dict[str, Any] | None:
    file = directory / "embodiment.json"
    return json.loads(file.read_text()) if file.is_file() else None


def _names(embodiment: Mapping[str, Any] | None, config: Any) -> tuple[dict[str, str], str | None]:
    """camera -> feature, and the feature of the state: as the dataset has them where the package says that, else as the policy has them."""
    if embodiment is not None:
        state = embodiment["state"]
        return (
            {name: camera["feature"] for name, camera in embodiment["cameras"].items()},
            None if state is None else state["feature"],
        )
    cameras = {feature.rpartition(".")[2]: feature for feature in config.image_features}
    return cameras, "observation.state" if config.robot_state_feature is not None else None


def _seed(seed: int | None) -> None:
    if seed is not None:
        torch.manual_seed(seed)


def _beside(file: str) -> ModuleType:
    """A module of the runtime that stands alone too, without the runtime's package."""
    path = Path(__file__).resolve().parent.parent / file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be read")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digest(tensor: Tensor) -> str:
    """Hash of a tensor's dtype, shape and bits."""
    tensor = tensor.detach().cpu().contiguous()
    made = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode())
    made.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return made.hexdigest()


def compare_weights(policy: Any, file: Path, digests: Mapping[str, str]) -> dict[str, list[str]]:
    """What of the trainer's weights LeRobot's loader did not bring back bit by bit.

    Args:
        policy: as loaded.
        file: model.safetensors.
        digests: name -> `digest` of every tensor of the trainer's state dict in the package's dtype, both names of a tied weight.

    Returns:
        `missing`, `unexpected`: names in the loaded policy; `altered`: the file holds other bits; `not loaded`: the policy holds
        other bits than the file, cast to the dtype in which the policy computes.
    """
    from safetensors import safe_open

    loaded = policy.state_dict()
    found: dict[str, list[str]] = {
        "missing": sorted(digests.keys() - loaded.keys()),
        "unexpected": sorted(loaded.keys() - digests.keys()),
        "altered": [],
        "not loaded": [],
    }
    tied: dict[tuple[int, ...], list[str]] = {}
    for name, tensor in loaded.items():
        tied.setdefault((tensor.data_ptr(), *tensor.shape), []).append(name)
    with safe_open(str(file), framework="pt") as content:
        held = set(content.keys())
        for names in tied.values():
            for name in names:
                if name not in digests:
                    continue
                key = next((other for other in [name, *names] if other in held), None)
                if key is None:
                    found["missing"].append(name)
                    continue
                tensor = content.get_tensor(key)
                if digest(tensor) != digests[name]:
                    found["altered"].append(name)
                elif digest(tensor.to(loaded[name].dtype)) != digest(loaded[name]):
                    found["not loaded"].append(name)
    return found


def read_job(job_file: str) -> dict[str, Any]:
    """What is to be verified; from here on the package's own hub folder is read. Call it before LeRobot is imported."""
    job = json.loads(Path(job_file).read_text())
    use_hub_folder(Path(job["directory"]))
    return job


def main(job_file: str, out: str) -> None:
    """Computes the actions of the reference batch and writes them, with what became of the weights."""
    foreign = [name for name in sys.modules if name.split(".")[0] == "vla_runtime"]
    if foreign:
        raise RuntimeError(f"this process was to be free of the trainer's code, but has {foreign}")
    job = read_job(job_file)
    directory = Path(job["directory"])
    sys.path.extend(job["plugin_path"])
    torch.set_num_threads(job["threads"])
    from safetensors.torch import load_file, save_file

    opened = StockPolicy(directory, device="cpu", plugin=job["plugin"])
    weights = compare_weights(opened.policy, directory / "model.safetensors", job["weights"])
    reference = load_file(job["reference"])
    cameras = {name.removeprefix("images."): tensor for name, tensor in reference.items() if name.startswith("images.")}
    rows: dict[str, list[Tensor]] = {"normalized": [], "actions": [], "selected": []}
    tokens: list[bool | None] = []
    names: list[bool] = []
    for row in job["rows"]:
        index, seed = row["index"], row["seed"]
        images = {camera: tensor[index].movedim(-3, -1).numpy() for camera, tensor in cameras.items()}
        state = reference["state"][index].numpy() if "state" in reference else None
        noise = reference["noise"][index][None] if "noise" in reference else None
        opened.reset()
        names.append(opened.names_arrive(images, row["instruction"], state))
        inputs = opened.observe(images, row["instruction"], state)
        _seed(seed)
        chunk = opened.chunk(inputs, noise)
        rows["normalized"].append(chunk[0].to(torch.float32))
        rows["actions"].append(opened.in_units(chunk))
        rows["selected"].append(opened.selected(inputs, noise, seed).to(torch.float32))
        tokens.append(opened.same_tokens(row["instruction"]))
    save_file({name: torch.stack(values).contiguous() for name, values in rows.items()}, out)
    import lerobot

    answer = {
        "weights": weights,
        "tokens": tokens,
        "names": names,
        "lerobot": lerobot.__version__,
        "dtypes": _dtypes(opened.policy),
    }
    Path(out).with_suffix(".json").write_text(json.dumps(answer))


def _dtypes(policy: Any) -> Sequence[str]:
    return sorted({str(tensor.dtype).removeprefix("torch.") for tensor in policy.state_dict().values()})


if __name__ == "__main__":
    main(*sys.argv[1:])
