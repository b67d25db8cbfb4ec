"""LeRobot's processors with the runtime's statistics: constants, ImageNet, inherited, relative actions, local tokenizers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_specs
import torch
from test_policy_samples import make, source
from vla_runtime.datasets import Source
from vla_runtime.errors import UserError
from vla_runtime.policies.processors import policy_processors, policy_recipes, relative_mask
from vla_runtime.policies.spec import PolicySpec


def opened(root: Path) -> Source:
    """The fixture's dataset."""
    return Source(source(root), small_specs.ACTION, small_specs.STATE)


@pytest.mark.parametrize("mode", ["MEAN_STD", "MIN_MAX", "QUANTILES"])
@pytest.mark.parametrize("constant", ["pass", "zero"])
def test_a_constant_action_survives_both_ways(tmp_path: Path, mode: str, constant: Any) -> None:
    from dataset_fixture import write_dataset

    root = write_dataset(tmp_path / "constant", constant=True)
    spec = small_specs.act(normalization={**small_specs.MODES, "ACTION": mode})
    with pytest.raises(UserError, match=r"action: dimensions \[1\] never change.*1 joint_1"):
        policy_recipes(spec, opened(root), constant="refuse")
    recipes = policy_recipes(spec, opened(root), constant=constant)
    before, after = policy_processors(spec, recipes)
    raw = torch.tensor([[0.3, 0.5, -0.2]])
    seen = before({"action": raw, "observation.state": torch.zeros(1, 2), "task": ["x"]})["action"]
    assert float(seen[0, 1]) == pytest.approx(0.5 if constant == "pass" else 0.0, abs=1e-5)
    torch.testing.assert_close(after(seen), raw, rtol=1e-5, atol=1e-5)
    wild = seen.clone()
    wild[0, 1] = 3.0
    assert float(after(wild)[0, 1]) == pytest.approx(3.0 if constant == "pass" else 0.5, abs=1e-5)


def test_pictures_are_normalised_with_imagenets_or_the_datasets_statistics(dataset: Path) -> None:
    white = {
        "observation.images.front": torch.ones(1, 3, 24, 24),
        "observation.state": torch.zeros(1, 2),
        "task": ["x"],
    }
    for imagenet in (True, False):
        spec = replace(small_specs.act(), imagenet_statistics=imagenet)
        recipes = policy_recipes(spec, opened(dataset), constant="refuse")
        before, _ = policy_processors(spec, recipes)
        picture = before(dict(white))["observation.images.front"][0, :, 0, 0]
        statistics = recipes["observation.images.front"]["statistics"]
        expected = (1 - torch.tensor(statistics["mean"])) / torch.tensor(statistics["std"])
        torch.testing.assert_close(picture, expected.float(), rtol=1e-5, atol=1e-5)
        assert (statistics["mean"] == pytest.approx([0.485, 0.456, 0.406])) == imagenet


def test_statistics_are_inherited_from_a_policy_directory(dataset: Path, tmp_path: Path) -> None:
    spec = small_specs.act()
    recipes = policy_recipes(spec, opened(dataset), constant="refuse")
    for feature in ("action", "observation.state"):
        recipes[feature]["statistics"] = {
            k: [v + 1 for v in values] for k, values in recipes[feature]["statistics"].items()
        }
    for step in policy_processors(spec, recipes):
        step.save_pretrained(tmp_path)
    theirs = policy_recipes(
        replace(spec, statistics="inherited", pretrained=str(tmp_path)), opened(dataset), constant="refuse"
    )
    for feature in ("action", "observation.state"):
        for key in ("mean", "std", "min", "max"):
            assert theirs[feature]["statistics"][key] == pytest.approx(recipes[feature]["statistics"][key], rel=1e-6)


def test_what_cannot_be_inherited_is_said(dataset: Path, tmp_path: Path) -> None:
    spec = replace(small_specs.act(), statistics="inherited")
    with pytest.raises(UserError, match="no pretrained policy"):
        policy_recipes(spec, opened(dataset), constant="refuse")
    with pytest.raises(UserError, match="policy_preprocessor.json is missing"):
        policy_recipes(replace(spec, pretrained=str(tmp_path)), opened(dataset), constant="refuse")
    wide = small_specs.act(action_dim=5)
    rules = policy_recipes(small_specs.act(), opened(dataset), constant="refuse")
    for values in rules["action"]["statistics"].values():
        values.extend([0.25, 0.75] if values[0] < 0 else [1.25, 1.75])
    for step in policy_processors(wide, rules):
        step.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="'action' has 5 values, the policy's action has 3"):
        policy_recipes(replace(spec, pretrained=str(tmp_path)), opened(dataset), constant="refuse")


def relative_spec(**config: Any) -> PolicySpec:
    """pi0 with relative actions; only its processors are made here."""
    values = {
        "use_relative_actions": True,
        "relative_exclude_joints": [],
        "chunk_size": 4,
        "n_action_steps": 4,
        **config,
    }
    modes: Any = {"STATE": "MEAN_STD", "ACTION": "MEAN_STD", "VISUAL": "IDENTITY"}
    return PolicySpec("pi0", ("front",), {"front": (24, 24)}, 3, 3, config=values, normalization=modes)


def test_relative_actions_have_statistics_of_their_own(tmp_path: Path) -> None:
    """Against LeRobot's own computation, where every window lies within its episode."""
    import numpy as np
    from lerobot.datasets.compute_stats import compute_relative_action_stats
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path / "relative"
    made = LeRobotDataset.create(
        repo_id="local/test",
        fps=10,
        root=root,
        use_videos=False,
        features={
            "observation.image": {"dtype": "image", "shape": (24, 24, 3), "names": ["height", "width", "channels"]},
            "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "gripper"]},
            "action": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "gripper"]},
        },
    )
    random = np.random.default_rng(0)
    for _ in range(3):
        for _ in range(8):
            values = random.normal(size=(2, 3)).astype(np.float32)
            image = np.zeros((24, 24, 3), dtype=np.uint8)
            made.add_frame(
                {"observation.image": image, "observation.state": values[0], "action": values[1], "task": "x"}
            )
        made.save_episode()
    made.finalize()
    names = {"relative_exclude_joints": ["gripper"], "action_feature_names": ["a", "b", "gripper"]}
    spec = relative_spec(**names)
    mask = relative_mask(spec)
    assert mask is not None and mask.tolist() == [True, True, False]
    theirs = compute_relative_action_stats(
        LeRobotDataset("local/test", root=root).hf_dataset, made.meta.features, 4, exclude_joints=["gripper"]
    )
    data = Source(source(root), 3, 3)
    data.training = [start + frame for start in (0, 8, 16) for frame in range(5)]  # whose windows are whole
    ours = policy_recipes(spec, data, constant="refuse")["action"]["statistics"]
    for key in ("mean", "std", "min", "max"):
        torch.testing.assert_close(torch.tensor(ours[key]), torch.as_tensor(theirs[key]).float(), rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="action_feature_names"):
        relative_mask(relative_spec(relative_exclude_joints=["gripper"]))


def test_a_tokenizer_that_is_not_at_hand_is_said_and_a_local_one_is_taken(tmp_path: Path) -> None:
    from tiny import tokenizer

    spec = relative_spec(use_relative_actions=False, tokenizer_max_length=8)
    with pytest.raises(UserError, match="processors of pi0.*tokenizer"):
        policy_processors(spec, {})
    tokenizer().save_pretrained(tmp_path / "words")
    before, _ = policy_processors(replace(spec, tokenizer=str(tmp_path / "words")), {})
    tokens = before({"observation.state": torch.zeros(2, 3), "task": ["go", "stop"]})["observation.language.tokens"]
    assert tokens.shape == (2, 8)
    step = next(step for step in before.steps if hasattr(step, "tokenizer_name"))
    assert (
        step.get_config()["tokenizer_name"] == "google/paligemma-3b-pt-224"
    )  # the package names what stock LeRobot names


def test_relative_reference_actions_come_back_absolute(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiny import tokenizer

    tokenizer().save_pretrained(tmp_path / "words")
    spec = replace(relative_spec(tokenizer_max_length=16), tokenizer=str(tmp_path / "words"), state_dim=3)
    root = tmp_path / "wide"
    from dataset_fixture import write_dataset

    write_dataset(root)
    wide = source(root, state="action")  # as wide as the action
    data = make(root, spec, datasets=[wide])
    reference = data.reference_batch()
    back = data.denormalize(reference.batch.tensors["action"], reference.datasets)
    original = torch.stack([data._view[(-1, i, *key)].actions for i, key in enumerate(data._reference_frames())])
    torch.testing.assert_close(back, original, rtol=1e-4, atol=1e-4)
