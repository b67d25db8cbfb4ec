"""LeRobot's own commands run on a policy directory, and so do the runtime's rollouts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import policy_checkpoint
import pytest
import small_specs
from policy_checkpoint import Trained
from safetensors.torch import load_file
from vla_runtime.pack.policy_directory import policy_directory
from vla_runtime.pack.reload import open_policy
from vla_runtime.pack.stock import StockPolicy
from vla_runtime.rollout import _Actions

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """ACT with MetaWorld's widths, on random data named as LeRobot names MetaWorld's."""
    spec = small_specs.act(
        state_dim=4, action_dim=4, image_sizes={"front": (64, 64)}, config={"vision_backbone": "resnet18"}
    )
    return policy_checkpoint.train(tmp_path_factory.mktemp("act"), spec, {"one": {"front": "observation.image"}})


@pytest.fixture(scope="module")
def package(trained: Trained) -> Path:
    """Its policy directory, which executes 3 of 4 actions."""
    out = trained.path.parent / "lerobot"
    return policy_directory(trained.open(), trained.spec, out, dtype="fp32", action_steps=3, roots=trained.roots)[0]


def command(module: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command of LeRobot's, offline."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "templates/runtime"), str(Path(__file__).parent)]),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "home"),
    }
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
def test_lerobot_eval(package: Path, tmp_path: Path) -> None:
    """With the flag that the card gives; without it LeRobot says that the names differ."""
    names = json.loads((package / "train_config.json").read_text())["rename_map"]
    shared = [
        f"--policy.path={package}",
        "--policy.device=cpu",
        "--env.discover_packages_path=short_env",
        "--env.type=short_metaworld",
        "--eval.n_episodes=1",
        "--eval.batch_size=1",
        "--eval.use_async_envs=false",
        f"--output_dir={tmp_path / 'eval'}",
    ]
    done = command("lerobot.scripts.lerobot_eval", *shared, f"--rename_map={json.dumps(names)}", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    overall = json.loads((tmp_path / "eval" / "eval_info.json").read_text())["overall"]
    assert overall["n_episodes"] == 1 and np.isfinite(overall["avg_sum_reward"])


@pytest.mark.slow
def test_lerobot_train_goes_on(package: Path, trained: Trained, tmp_path: Path) -> None:
    """One step from the package's weights with the package's own configuration."""
    arguments = [
        f"--config_path={package / 'train_config.json'}",
        f"--policy.path={package}",
        "--policy.device=cpu",
        f"--dataset.root={trained.roots['one']}",
        "--steps=1",
        f"--output_dir={tmp_path / 'train'}",
    ]
    done = command("lerobot.scripts.lerobot_train", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    written = tmp_path / "train/checkpoints/000001/pretrained_model"
    config = json.loads((written / "train_config.json").read_text())
    assert config["optimizer"]["lr"] == 1e-3 and config["policy"]["n_action_steps"] == 3
    # What the card warns of: LeRobot keeps statistics under the dataset's names, and a renamed camera has none.
    normalised = load_file(written / "policy_preprocessor_step_3_normalizer_processor.safetensors")
    assert "observation.image.mean" in normalised and "observation.images.front.mean" not in normalised
    assert "a camera that is renamed is not normalised" in (package / "README.md").read_text()


def test_rollouts_ask_through_lerobots_queue(package: Path) -> None:
    """The first three actions are the chunk's; the fourth is of a new chunk, from what is seen then."""
    policy: Any = open_policy(package)
    assert isinstance(policy, StockPolicy)
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 255, (64, 64, 3), dtype=np.uint8) for _ in range(4)]
    states = [random.normal(size=4).astype(np.float32) for _ in range(4)]
    first, later = (policy.act({"front": pictures[i]}, "reach", states[i]) for i in (0, 3))
    assert first.shape == (4, 4)
    actions = _Actions(policy, action_steps=1)  # the directory's own number counts
    actions.begin()
    given = [actions.next({"front": picture}, "reach", state) for picture, state in zip(pictures, states, strict=True)]
    np.testing.assert_allclose(given[:3], first[:3], atol=1e-5)
    np.testing.assert_allclose(given[3], later[0], atol=1e-5)
    actions.begin()
    np.testing.assert_allclose(actions.next({"front": pictures[3]}, "reach", states[3]), later[0], atol=1e-5)


def test_a_folder_of_several_policies_asks_which(tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy_preprocessor.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="each of left, right"):
        open_policy(tmp_path)
