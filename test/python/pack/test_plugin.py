"""A third-party plugin from a folder, whose postprocessor cuts what the policy pads: trained, packed, and loaded by stock LeRobot."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import policy_checkpoint
import pytest
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.processor import ProcessorStepRegistry
from policy_checkpoint import Trained
from safetensors.torch import load_file, save_file
from vla_runtime.errors import UserError
from vla_runtime.pack.policy_directory import policy_directory
from vla_runtime.pack.policy_verification import verify_policy
from vla_runtime.pack.reload import open_policy
from vla_runtime.policies.spec import PolicySpec, policy_config

PLUGINS = Path(__file__).parent.parent / "policies" / "plugins"
PLUGIN = "lerobot_policy_padded"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The plugins lie in a folder of their own on Python's path, as a user's do."""
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copytree(PLUGINS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.split(".")[0] == PLUGIN]:
        del sys.modules[name]
    PreTrainedConfig._choice_registry.pop("padded", None)
    ProcessorStepRegistry.unregister("padded_to_width")


def padded(**changes: Any) -> PolicySpec:
    """Three action dimensions, in a model of eight."""
    values: dict[str, Any] = {
        "type": "padded",
        "plugin": PLUGIN,
        "cameras": ("front",),
        "image_sizes": {"front": (24, 24)},
        "state_dim": 2,
        "action_dim": 3,
        "normalization": {"STATE": "MEAN_STD", "ACTION": "MIN_MAX", "VISUAL": "MEAN_STD"},
        "imagenet_statistics": True,
        **changes,
    }
    return PolicySpec(**values)


@pytest.fixture(scope="module")
def trained(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two updates."""
    return policy_checkpoint.train(tmp_path_factory.mktemp("padded"), padded())


@pytest.fixture(scope="module")
def packed(trained: Trained) -> Path:
    """Its policy directory, which executes 2 of 4 actions."""
    out = trained.path.parent / "lerobot"
    return policy_directory(trained.open(), trained.spec, out, dtype="fp32", action_steps=2, roots=trained.roots)[0]


def test_what_the_postprocessor_cuts_is_compared_as_it_returns_it(packed: Path, trained: Trained) -> None:
    result = json.loads((packed / "verification.json").read_text())
    assert result["passed"] and result["samples"] == 4 and result["largestDifference"] <= 1e-5
    reference = trained.open().reference
    assert reference["normalized_actions"].shape == (4, 4, 8) and reference["actions"].shape == (4, 4, 3)
    described = json.loads((packed / "embodiment.json").read_text())
    assert described["policy"] == {"type": "padded", "plugin": PLUGIN}
    assert len(described["action"]["dimensions"]) == 3


def test_the_packed_processor_normalises_the_pictures_as_declared(packed: Path) -> None:
    held = load_file(packed / "policy_preprocessor_step_2_normalizer_processor.safetensors")
    torch.testing.assert_close(held["observation.images.front.mean"].flatten(), torch.tensor([0.485, 0.456, 0.406]))
    document = json.loads((packed / "policy_preprocessor.json").read_text())
    assert document["steps"][2]["config"]["norm_map"]["VISUAL"] == "MEAN_STD"


def test_the_package_opens_by_its_plugins_name(packed: Path, trained: Trained) -> None:
    """And acts as the trainer did, by the names of the dataset."""
    reference = trained.open().reference
    picture = reference["images.front"][0].permute(1, 2, 0).numpy()
    actions = open_policy(packed).act({"front": picture}, "close it", reference["state"][0].numpy())
    torch.testing.assert_close(torch.as_tensor(actions), reference["actions"][0], atol=1e-4, rtol=0)


def test_another_width_or_another_scale_behind_the_cut_is_noticed(
    packed: Path, trained: Trained, tmp_path: Path
) -> None:
    checkpoint = trained.open()
    for fault, message in (("scale", "differ from the trainer's.*postprocessed"), ("width", "actions have the shape")):
        package = tmp_path / fault
        shutil.copytree(packed, package)
        if fault == "scale":
            (path,) = package.glob("policy_postprocessor_step_*.safetensors")
            statistics = load_file(path)
            statistics["action.max"][2] *= 1.01
            save_file(statistics, path)
        else:
            path = package / "policy_postprocessor.json"
            path.write_text(path.read_text().replace('"width": 3', '"width": 4'))
            (state,) = package.glob("policy_postprocessor_step_*.safetensors")
            save_file({name: torch.cat([v, v[-1:]]) for name, v in load_file(state).items()}, state)
        with pytest.raises(UserError, match=f"(?s){message}"):
            verify_policy(package, checkpoint, trained.spec, "one", checkpoint.exported("fp32"), "fp32")


def test_a_plugin_that_fails_to_import_shows_its_own_error(installed: None) -> None:
    with pytest.raises(UserError, match="lerobot_policy_broken.*ModuleNotFoundError: .*a_package_that_nobody_has"):
        policy_config(padded(type="broken", plugin="lerobot_policy_broken"))
    with pytest.raises(UserError, match="the plugin lerobot_policy_padded registers no such type"):
        policy_config(padded(type="paded"))
