"""A policy directory is complete, is loaded by stock LeRobot alone, and whatever is wrong with it is noticed."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import packed_specs
import policy_checkpoint
import pytest
import small_specs
import tiny
import torch
from lerobot.configs.train import TrainPipelineConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.xvla.modeling_xvla import XVLAPolicy
from policy_checkpoint import Trained
from safetensors.torch import load_file, save_file
from vla_runtime.checkpoints import read_tensors
from vla_runtime.errors import UserError
from vla_runtime.pack import policy_verification
from vla_runtime.pack.policy_directory import policy_directory
from vla_runtime.pack.policy_verification import verify_policy
from vla_runtime.pack.stock import StockPolicy
from vla_runtime.partition import Lora, Module
from vla_runtime.policies.processors import _local_tokenizer, relative_mask
from vla_runtime.policies.spec import PolicySpec, build_policy

STOCK = {"vision_backbone": "resnet18"}  # which stock LeRobot can build
TWO: dict[str, Any] = {
    "cameras": ("front", "wrist"),
    "image_sizes": {"front": (24, 24), "wrist": (24, 24)},
    "config": STOCK,
}
# The two cameras are named the wrong way round in the dataset, so that a lost or doubled renaming cannot pass.
CROSSED = {"one": {"front": "observation.images.wrist", "wrist": "observation.images.front"}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """ACT with two cameras."""
    return policy_checkpoint.train(tmp_path_factory.mktemp("act"), small_specs.act(**TWO), CROSSED)


@pytest.fixture(scope="module")
def packed(trained: Trained) -> Path:
    """Its policy directory, which executes 2 of 4 actions."""
    out = trained.path.parent / "lerobot"
    return policy_directory(trained.open(), trained.spec, out, dtype="fp32", action_steps=2, roots=trained.roots)[0]


def content(directory: Path, name: str) -> Any:
    """A JSON file of the package."""
    return json.loads((directory / name).read_text())


# What is there


def test_the_directory_is_complete(packed: Path) -> None:
    found = {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
    assert found == {
        "README.md",
        "config.json",
        "embodiment.json",
        "model.safetensors",
        "plan.json",
        "policy_postprocessor.json",
        "policy_postprocessor_step_0_unnormalizer_processor.safetensors",
        "policy_preprocessor.json",
        "policy_preprocessor_step_3_normalizer_processor.safetensors",
        "stats.json",
        "train_config.json",
        "verification.json",
    }


def test_what_the_verification_found(packed: Path) -> None:
    result = content(packed, "verification.json")
    assert result["passed"] and result["weights"]["bitEqual"] and result["names"] and result["samples"] == 4
    assert set(result["differences"]) == {"predict_action_chunk", "select_action", "postprocessed"}
    assert result["largestDifference"] <= 1e-5 and result["tolerance"] == 1e-4
    assert (result["lerobot"], result["dtype"], result["update"]) == ("0.6.1", "fp32", 2)


def test_nothing_but_the_plan_names_a_place_of_this_machine(packed: Path, trained: Trained) -> None:
    for path in packed.rglob("*.*"):
        if path.suffix in (".json", ".md") and path.name not in ("plan.json", "train_config.json"):
            assert str(trained.path.parent.parent) not in path.read_text(), path


def test_the_configuration_is_what_was_trained_and_fetches_nothing(packed: Path, trained: Trained) -> None:
    config = content(packed, "config.json")
    assert list(config["input_features"]) == [
        "observation.images.front",
        "observation.images.wrist",
        "observation.state",
    ]
    assert (config["type"], config["chunk_size"], config["n_action_steps"]) == ("act", 4, 2)
    assert config["pretrained_backbone_weights"] is None and config["device"] is None
    assert config["normalization_mapping"] == dict(trained.spec.normalization)


def test_the_weights_have_one_dtype_and_lerobots_names(packed: Path, trained: Trained) -> None:
    held = load_file(packed / "model.safetensors")
    weights = trained.open().weights
    assert held.keys() == weights.keys() and all(torch.equal(held[name], weights[name]) for name in held)


def test_the_statistics_are_those_that_normalise(packed: Path, trained: Trained) -> None:
    statistics = content(packed, "stats.json")
    theirs = content(Path(trained.roots["one"]), "meta/stats.json")
    np.testing.assert_allclose(statistics["action"]["min"], theirs["action"]["min"])
    held = load_file(packed / "policy_preprocessor_step_3_normalizer_processor.safetensors")
    np.testing.assert_allclose(
        held["observation.state.mean"], np.float32(theirs["observation.state"]["mean"]), rtol=1e-6
    )
    np.testing.assert_allclose(held["observation.images.front.mean"].flatten(), [0.485, 0.456, 0.406], rtol=1e-6)


def test_the_embodiment_has_names_limits_rate_and_cameras(packed: Path, trained: Trained) -> None:
    embodiment = content(packed, "embodiment.json")
    theirs = content(Path(trained.roots["one"]), "meta/stats.json")["action"]
    assert (embodiment["controlRateHz"], embodiment["robotType"]) == (10, "arm")
    assert embodiment["cameras"]["front"] == {
        "feature": "observation.images.wrist",
        "policyFeature": "observation.images.front",
        "height": 24,
        "width": 24,
    }
    names, limits = zip(*((d["name"], (d["min"], d["max"])) for d in embodiment["action"]["dimensions"]), strict=True)
    assert names == ("x", "y", "z") and limits == tuple(zip(theirs["min"], theirs["max"], strict=True))
    assert [dimension["name"] for dimension in embodiment["state"]["dimensions"]] == ["x", "y"]


def test_lerobots_trainer_can_go_on_from_the_plan(packed: Path, trained: Trained) -> None:
    config = TrainPipelineConfig.from_pretrained(packed)
    assert config.policy is not None and config.policy.type == "act"
    optimizer: Any = config.optimizer
    assert (config.steps, config.batch_size, config.seed, config.save_freq) == (2, 2, 3, 1)  # 4 samples by 2 processes
    assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ("adamw", 1e-3, 1e-2)
    assert (tuple(optimizer.betas), optimizer.grad_clip_norm) == ((0.9, 0.95), 1.0)
    policy: Any = config.policy
    assert policy.optimizer_lr_backbone == 1e-3  # which ACT's parameter groups read, whatever the optimizer is told
    assert config.scheduler is not None and config.scheduler.type == "constant_with_warmup"
    assert config.dataset.root == trained.roots["one"] and config.dataset.episodes == [0, 1, 2]
    assert config.rename_map == {
        "observation.images.wrist": "observation.images.front",
        "observation.images.front": "observation.images.wrist",
    }


def test_the_card_says_how_to_load_and_what_lerobots_trainer_does_otherwise(packed: Path) -> None:
    card = (packed / "README.md").read_text()
    renamed = content(packed, "train_config.json")["rename_map"]
    assert f"--rename_map='{json.dumps(renamed)}'" in card
    for phrase in (
        "2 of\n2 updates",
        "Control rate 10 Hz",
        "| action 2 | z |",
        "a camera that is renamed is not normalised",
    ):
        assert phrase in card, phrase
    assert "HF_HUB_CACHE" not in card  # ACT reads nothing by name


# What is wrong is noticed


def _lose_a_tensor(package: Path) -> None:
    weights = load_file(package / "model.safetensors")
    del weights["model.action_head.bias"]
    save_file(weights, package / "model.safetensors")


def _turn_one_bit(package: Path) -> None:
    weights = load_file(package / "model.safetensors")
    weights["model.vae_encoder_cls_embed.weight"].view(torch.int32)[0, 0] ^= 1  # which no action depends on
    save_file(weights, package / "model.safetensors")


def _change_a_statistic(package: Path) -> None:
    path = package / "policy_preprocessor_step_3_normalizer_processor.safetensors"
    statistics = load_file(path)
    statistics["observation.state.mean"][1] += 0.1
    save_file(statistics, path)


def _change_the_way_back(package: Path) -> None:
    path = package / "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
    statistics = load_file(path)
    statistics["action.max"][0] *= 1.01
    save_file(statistics, path)


def _swap_the_cameras(package: Path) -> None:
    path = package / "policy_preprocessor.json"
    document = json.loads(path.read_text())
    document["steps"][0]["config"]["rename_map"] = {}
    path.write_text(json.dumps(document))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing tensor": (_lose_a_tensor, "does not load.*model.action_head.bias"),
    "a changed bit": (_turn_one_bit, "weights.*altered: model.vae_encoder_cls_embed.weight"),
    "a state's mean": (_change_a_statistic, "differ from the trainer's.*predict_action_chunk"),
    "an action's maximum": (_change_the_way_back, "differ from the trainer's.*postprocessed"),
    "swapped cameras": (_swap_the_cameras, "dataset's names.*wrong place"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(packed: Path, trained: Trained, tmp_path: Path, fault: str) -> None:
    spoil, message = FAULTS[fault]
    package = tmp_path / "package"
    shutil.copytree(packed, package)
    spoil(package)
    checkpoint = trained.open()
    with pytest.raises(UserError, match=f"(?s){message}"):
        verify_policy(package, checkpoint, trained.spec, "one", checkpoint.exported("fp32"), "fp32")
    if "does not load" not in message:
        assert not content(package, "verification.json")["passed"]


@pytest.mark.slow
def test_swapped_cameras_act_otherwise(tmp_path: Path) -> None:
    """By their actions: Diffusion Policy joins its cameras in order, while ACT does not tell two of one size apart."""
    seeing: dict[str, Any] = {
        **TWO,
        "image_sizes": dict.fromkeys(TWO["cameras"], (96, 96)),
    }  # 3 x 3 features to find points in
    trained = policy_checkpoint.train(tmp_path, small_specs.diffusion(**seeing), CROSSED)
    package = policy_directory(trained.open(), trained.spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    assert content(package, "verification.json")["passed"]
    _swap_the_cameras(package)
    checkpoint = trained.open()
    with pytest.raises(UserError, match="wrong place"):
        verify_policy(package, checkpoint, trained.spec, "one", checkpoint.exported("fp32"), "fp32")
    result = content(package, "verification.json")
    assert not result["names"] and result["differences"]["predict_action_chunk"] > 10 * result["tolerance"]


def test_what_cannot_be_packed_says_why(trained: Trained, tmp_path: Path) -> None:
    checkpoint = trained.open()
    with pytest.raises(UserError, match="fp32 or bf16, not in fp64"):
        policy_directory(checkpoint, trained.spec, tmp_path / "out", dtype="fp64")
    with pytest.raises(UserError, match="does not accept.*chunk size.*upper bound"):
        policy_directory(checkpoint, trained.spec, tmp_path / "out", dtype="fp32", action_steps=5)
    assert not (tmp_path / "out").exists()


# Precision, embodiments, families


@pytest.mark.slow
def test_bf16(trained: Trained, tmp_path: Path) -> None:
    package = policy_directory(trained.open(), trained.spec, tmp_path / "out", dtype="bf16", roots=trained.roots)[0]
    held, weights = load_file(package / "model.safetensors"), trained.open().weights
    assert all(torch.equal(held[name], weights[name].to(torch.bfloat16)) for name in weights)
    result = content(package, "verification.json")
    assert result["weights"]["bitEqual"] and 1e-4 < result["largestDifference"] <= 5e-2 == result["tolerance"]


@pytest.mark.slow
def test_each_dataset_has_its_directory_over_one_weight_file(tmp_path: Path) -> None:
    maps = {"left": {"front": "observation.images.top"}, "right": {"front": "observation.image"}}
    trained = policy_checkpoint.train(tmp_path, small_specs.act(config=STOCK), maps)
    out = tmp_path / "lerobot"
    left, right = policy_directory(trained.open(), trained.spec, out, dtype="fp32", roots=trained.roots)
    assert (left, right) == (out / "left", out / "right")
    assert os.path.samefile(left / "model.safetensors", right / "model.safetensors")
    assert content(left, "stats.json")["action"] != content(right, "stats.json")["action"]
    for package, name in ((left, "left"), (right, "right")):
        embodiment, result = content(package, "embodiment.json"), content(package, "verification.json")
        assert embodiment["cameras"]["front"]["feature"] == maps[name]["front"]
        assert embodiment["dataset"]["name"] == result["dataset"] == name
        assert result["passed"] and result["weights"]["bitEqual"]
    compared = [content(package, "verification.json")["samples"] for package in (left, right)]
    assert sum(compared) == 4
    assert "`left`" in (left / "README.md").read_text() and "mixed by weight" in (left / "README.md").read_text()


@pytest.fixture
def small_processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within: pi0 and pi0.5 are built small, in the process that verifies too."""
    monkeypatch.setattr(policy_verification, "SCRIPT", Path(__file__).parent / "small_stock.py")
    with tiny.small():
        yield


SPECS: dict[str, Callable[[Path], PolicySpec]] = {
    **{kind: lambda folder, kind=kind: packed_specs.declared(kind, folder) for kind in tiny.TYPES},
    "diffusion": lambda folder: small_specs.diffusion(config=STOCK),
    "multi_task_dit": small_specs.multi_task_dit,
}
HUB = {
    "pi0": "google/paligemma-3b-pt-224",
    "pi05": "google/paligemma-3b-pt-224",
    "smolvla": "vla-package/smolvlm",
    "xvla": "facebook/bart-large",
    "multi_task_dit": "vla-package/small-clip",
}
DRAWN = random.Random(os.environ.get("VLA_TEST_SEED", "0")).sample(sorted(SPECS), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in DRAWN else pytest.mark.full) for kind in sorted(SPECS)]
)
def test_every_family(small_processes: None, tmp_path: Path, kind: str) -> None:
    """The fresh process has no cache but the package's own hub folder, so that a file that is not in it would be missed."""
    trained = policy_checkpoint.train(tmp_path, SPECS[kind](tmp_path))
    package = policy_directory(trained.open(), trained.spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    result = content(package, "verification.json")
    assert result["passed"] and result["weights"]["bitEqual"] and result["largestDifference"] <= 1e-5
    hub = HUB.get(kind)
    assert result["tokenizerFolder"] is (True if hub else None)
    assert [path.name for path in package.glob("hub/*")] == ([f"models--{hub.replace('/', '--')}"] if hub else [])
    card = (package / "README.md").read_text()
    assert ("HF_HUB_CACHE=$PWD/hub" in card) == (hub is not None)
    texts = [path.read_text() for path in package.glob("*.json") if path.name not in ("plan.json", "train_config.json")]
    assert not any(str(tmp_path) in text for text in texts)


@pytest.mark.slow
@pytest.mark.full
def test_the_embeddings_that_pi0s_loader_would_overwrite(small_processes: None, tmp_path: Path) -> None:
    """In a file of mixed dtypes the head comes behind the embeddings, and LeRobot's loader puts it in their place without a word."""
    trained = policy_checkpoint.train(tmp_path, packed_specs.declared("pi0", tmp_path))
    package = policy_directory(trained.open(), trained.spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    weights = load_file(package / "model.safetensors")
    head = "model.paligemma_with_expert.paligemma.lm_head.weight"
    embeddings = "model.paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight"
    assert not torch.equal(weights[head], weights[embeddings])
    weights[head] = weights[head].to(torch.bfloat16)
    save_file(weights, package / "model.safetensors")
    checkpoint = trained.open()
    with pytest.raises(UserError, match="(?s)does not load the trainer's weights.*not loaded: .*embed_tokens"):
        verify_policy(package, checkpoint, replace(trained.spec), "one", checkpoint.exported("fp32"), "fp32")


# Relative actions, adapters, empty cameras


@pytest.mark.slow
def test_relative_actions(small_processes: None, tmp_path: Path) -> None:
    """Statistics are those of relative actions, the excluded joint stays absolute, and a chunk belongs to the frame it was planned in."""
    names = ["x", "y", "z", "u"]
    options = {"use_relative_actions": True, "relative_exclude_joints": ["u"], "action_feature_names": names}
    spec = replace(packed_specs.declared("pi05", tmp_path, **options), state_dim=4)
    trained = policy_checkpoint.train(tmp_path, spec)
    package = policy_directory(trained.open(), trained.spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    result = content(package, "verification.json")
    assert result["passed"] and result["largestDifference"] <= 1e-5

    # By hand: every window of a training episode, without what lies behind its end.
    dataset = LeRobotDataset("local/test", root=trained.roots["one"])
    frames: list[Any] = [dataset[index] for index in range(len(dataset))]
    episodes = [int(frame["episode_index"]) for frame in frames]
    relative = [
        frames[later]["action"] - frames[now]["observation.state"] * torch.tensor([1.0, 1.0, 1.0, 0.0])
        for now in range(len(frames))
        for later in range(now, min(now + tiny.CHUNK, len(frames)))
        if episodes[later] == episodes[now]
    ]
    statistics = content(package, "stats.json")["action"]
    np.testing.assert_allclose(statistics["mean"], torch.stack(relative).double().mean(0), rtol=1e-5, atol=1e-6)
    plain = content(Path(trained.roots["one"]), "meta/stats.json")["action"]
    assert not np.allclose(statistics["std"][:3], plain["std"][:3], rtol=1e-2)

    config = content(package, "config.json")
    assert config["action_feature_names"] == names and config["relative_exclude_joints"] == ["u"]
    assert content(package, "embodiment.json")["action"]["relativeToState"]
    assert "--inference.type=rtc" in (package / "README.md").read_text()

    with _local_tokenizer(spec):  # this process has read where the hub's cache is already
        policy = StockPolicy(package, device="cpu")
    pictures = {camera: np.zeros((tiny.IMAGE, tiny.IMAGE, 3), dtype=np.uint8) for camera in tiny.CAMERAS}
    policy.reset()
    states = [np.full(4, value, dtype=np.float32) for value in (0.0, 5.0)]
    torch.manual_seed(0)
    first, second = (policy.step(pictures, "close it", state) for state in states)
    torch.manual_seed(0)
    policy.reset()
    chunk = policy.act(pictures, "close it", states[0])
    np.testing.assert_allclose(np.stack([first, second]), chunk[:2], atol=1e-5)


def test_joints_that_relative_actions_would_miss_are_said(tmp_path: Path) -> None:
    spec = packed_specs.declared("pi05", tmp_path, use_relative_actions=True, relative_exclude_joints=["gripper"])
    with pytest.raises(UserError, match="action_feature_names does not say which"):
        relative_mask(spec)
    named = replace(spec, config={**spec.config, "action_feature_names": ["x", "y", "z", "jaw"]})
    with pytest.raises(
        UserError, match="except for gripper, and no action dimension is called that: they are x, y, z, jaw"
    ):
        relative_mask(named)
    matched = replace(spec, config={**spec.config, "action_feature_names": ["x", "y", "z", "Gripper.pos"]})
    mask = relative_mask(matched)
    assert mask is not None and mask.tolist() == [True, True, True, False]


@pytest.mark.slow
def test_adapters_are_merged(tmp_path: Path) -> None:
    """Stock LeRobot loads the merged weights, and acts as the trainer did with its adapters."""
    spec = packed_specs.declared("smolvla", tmp_path)
    lora = Lora(rank=2, alpha=4.0, targets=["q_proj", "v_proj"])
    whole = "model.vlm_with_expert"
    trunk = f"{whole}.vlm.model.text_model.*"
    modules = [
        Module("language", [trunk, f"{whole}.vlm.lm_head.*"], lr=1e-3, lora=lora),
        Module("rest", [f"{whole}.vlm.model.[!t]*", f"{whole}.lm_expert.*", "model.[!v]*"], lr=1e-3),
    ]
    trained = policy_checkpoint.train(tmp_path, spec, modules=modules)
    checkpoint = trained.open()
    held = dict(read_tensors(checkpoint.path))
    up = next(name for name in held if "layers.0.self_attn.v_proj.lora_B." in name)
    assert held[up].abs().max() > 0  # it has trained
    package = policy_directory(checkpoint, spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    result = content(package, "verification.json")
    assert result["passed"] and result["weights"]["bitEqual"] and result["largestDifference"] <= 1e-5
    weights = load_file(package / "model.safetensors")
    assert not any("lora" in name or "base_layer" in name for name in weights)
    key = up.partition(".lora_B.")[0]
    before, down = held[f"{key}.base_layer.weight"], held[up.replace(".lora_B.", ".lora_A.")]
    torch.testing.assert_close(weights[f"{key}.weight"], before + held[up] @ down * 2.0, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(weights[f"{key}.weight"], before)
    assert not content(package, "config.json")["use_peft"] and not list(package.glob("adapter_*"))


@pytest.mark.slow
def test_an_empty_camera_stays_one_view(tmp_path: Path) -> None:
    """LeRobot's X-VLA counts an empty camera that its configuration names as a camera, and adds another: one more view each time."""
    spec = packed_specs.declared("xvla", tmp_path, empty_cameras=1)
    assert build_policy(spec).config.num_image_views == 3  # pyright: ignore[reportAttributeAccessIssue]
    trained = policy_checkpoint.train(tmp_path, spec)
    package = policy_directory(trained.open(), spec, tmp_path / "lerobot", dtype="fp32", roots=trained.roots)[0]
    assert content(package, "verification.json")["passed"]
    config = content(package, "config.json")
    assert (config["num_image_views"], config["empty_cameras"]) == (3, 1)
    assert [name for name in config["input_features"] if "camera" in name] == []
    loaded: Any = XVLAPolicy.from_pretrained(str(package), strict=True)
    assert loaded.config.num_image_views == 3
    again = replace(spec, config={}, pretrained=str(package))
    assert build_policy(again).config.num_image_views == 3  # pyright: ignore[reportAttributeAccessIssue]
