"""openpi's JAX checkpoints in LeRobot's classes, by the actions that come out."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from openpi_fixtures import CAMERA_MAP, FIXTURES, LENGTH, Converted, convert_here, request_for
from safetensors.torch import load_file, save_file
from vla_convert import verify as verification
from vla_convert.batch import read_batch
from vla_convert.convert import convert
from vla_convert.jobs import Job
from vla_convert.openpi import open_openpi
from vla_convert.policies import build, load, load_config, modeling, of_size
from vla_convert.reference_model import actions
from vla_runtime.errors import UserError


def job(converted: Converted, **changes: Any) -> Job:
    told: dict[str, Any] = {
        "directory": str(converted.directory),
        "cameras": CAMERA_MAP,
        "openpi": str(converted.source),
        "reference": str(converted.reference),
        "norm_stats": str(converted.source / "assets" / "my_robot" / "norm_stats.json"),
        "carried": False,
        "openpi_is_new": False,
    }
    return Job(**(told | changes))


def difference(job: Job) -> float:
    return verification._run(job)["actions"]["largestDifference"]


@pytest.fixture
def copy(converted: Converted, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted.directory, tmp_path / "policy"))


def test_actions_are_those_of_openpi(converted: Converted) -> None:
    told = converted.report["verification"]
    assert told["agrees"] and told["actions"]["largestDifference"] <= 2e-4
    assert told["actions"]["shape"] == [2, 10, 32] and told["actions"]["largestAction"] > 3
    assert told["statistics"]["relative"] == [True] * 6 + [False]
    assert json.loads((converted.directory / "verification.json").read_text()) == told


def test_the_leaves_as_openpi_stores_them_give_openpis_actions(converted: Converted) -> None:
    """The independent way, which conversions without a reference are compared with."""
    checkpoint = open_openpi(converted.source)
    stored = read_batch(converted.reference)
    computed = actions(checkpoint.weights, checkpoint.sizes, stored)  # type: ignore[arg-type]
    assert computed.actions is not None and stored.actions is not None
    assert float((computed.actions - stored.actions).abs().max()) < 5e-5


def test_without_a_reference_both_layouts_are_run(converted: Converted) -> None:
    told = verification._run(job(converted, reference=None))
    assert "in openpi's own layout" in told["actions"]["against"]
    assert told["agrees"] and 0 < told["actions"]["largestDifference"] <= 2e-4


@pytest.mark.parametrize("reference", [True, False])
def test_swapped_cameras_differ(converted: Converted, copy: Path, reference: bool) -> None:
    config = json.loads((copy / "config.json").read_text())
    top, left, *others = config["input_features"].items()
    config["input_features"] = dict([left, top, *others])
    (copy / "config.json").write_text(json.dumps(config))
    stored = str(converted.reference) if reference else None
    told = verification._run(job(converted, directory=str(copy), reference=stored))
    assert not told["agrees"] and told["actions"]["largestDifference"] > 0.01


@pytest.mark.parametrize("stream", ["paligemma.model.language_model", "gemma_expert.model"])
def test_permuted_heads_differ(converted: Converted, copy: Path, stream: str) -> None:
    weights = load_file(copy / "model.safetensors")
    name = f"model.paligemma_with_expert.{stream}.layers.1.self_attn.o_proj.weight"
    heads = weights[name].reshape(64, 8, 16)
    weights[name] = heads.roll(1, dims=1).reshape(64, 128).contiguous()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert difference(job(converted, directory=str(copy))) > 0.01


def test_fewer_steps_differ(converted: Converted, tmp_path: Path) -> None:
    stored = dict(np.load(converted.reference))
    np.savez(tmp_path / "five.npz", **stored, steps=np.asarray(5))
    assert difference(job(converted, reference=str(tmp_path / "five.npz"))) > 0.05


def test_a_conversion_that_acts_differently_leaves_nothing(converted: Converted, tmp_path: Path) -> None:
    stored = dict(np.load(converted.reference))
    stored["img_base_0_rgb"], stored["img_left_wrist_0_rgb"] = stored["img_left_wrist_0_rgb"], stored["img_base_0_rgb"]
    np.savez(tmp_path / "swapped.npz", **stored)
    wanted = request_for(converted.family, converted.source, tmp_path / "out", reference=tmp_path / "swapped.npz")
    with pytest.raises(UserError, match=r"acts differently from .*, and was removed: loaded in a fresh process"):
        convert_here(wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["swapped.npz"]


def test_stock_lerobot_loads_every_weight(converted: Converted) -> None:
    """Its own loader, which prints what it does not find, against the file."""
    config = load_config(converted.directory)
    _, sizes = load(converted.directory, config)
    module = modeling(sizes.family)
    policy_class = module.PI0Policy if sizes.family == "pi0" else module.PI05Policy
    with of_size(sizes.family, sizes):
        policy = policy_class.from_pretrained(str(converted.directory), config=config)
    stored = load_file(converted.directory / "model.safetensors")
    loaded = policy.state_dict()
    assert set(loaded) == set(stored)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in stored.items())

    batch = read_batch(converted.reference)
    assert batch.actions is not None
    observation: dict[str, Any] = {
        feature: (batch.images[camera][:1].permute(0, 3, 1, 2) + 1) / 2
        for camera, feature in CAMERA_MAP.items()
        if bool(batch.masks[camera][0])  # of the first sample LeRobot leaves out the picture that is not there
    }
    observation |= {
        "observation.language.tokens": batch.tokens[:1],
        "observation.language.attention_mask": batch.token_mask[:1],
    }
    chunk = policy.predict_action_chunk({**observation, "observation.state": batch.state[:1]}, noise=batch.noise[:1])
    assert chunk.shape == (1, 10, 7)
    assert torch.allclose(chunk, batch.actions[:1, :, :7], atol=2e-4)


def test_statistics_with_lerobots_epsilon_differ(converted: Converted, copy: Path, tmp_path: Path) -> None:
    """A constant dimension at 0 is 100 times larger with LeRobot's epsilon; the check has to see it."""
    pipeline = json.loads((copy / "policy_preprocessor.json").read_text())
    step = next(step for step in pipeline["steps"] if step.get("registry_name") == "normalizer_processor")
    assert step["config"]["eps"] == 1e-6
    stored = json.loads((converted.source / "assets" / "my_robot" / "norm_stats.json").read_text())
    state = load_file(copy / step["state_file"])
    for name in ("mean", "std", "q01", "q99"):
        stored["norm_stats"]["state"][name][2] = 0.0
        state[f"observation.state.{name}"][2] = 0.0
    save_file(state, copy / step["state_file"])
    (tmp_path / "norm_stats.json").write_text(json.dumps(stored))
    changed = job(converted, directory=str(copy), norm_stats=str(tmp_path / "norm_stats.json"))
    assert verification._run(changed)["statistics"]["state"] < 1e-4
    step["config"]["eps"] = 1e-8
    (copy / "policy_preprocessor.json").write_text(json.dumps(pipeline))
    assert verification._run(changed)["statistics"]["state"] > 10


def test_pi05_without_state_in_its_prompt(tmp_path: Path) -> None:
    report = convert_here(request_for("pi05", FIXTURES / "pi05" / "7", tmp_path / "out", discrete_state=False))
    assert report["verification"]["agrees"]
    steps = json.loads((tmp_path / "out" / "policy_preprocessor.json").read_text())["steps"]
    assert [step.get("registry_name", step.get("class", "").rpartition(".")[2]) for step in steps][3:6] == [
        "normalizer_processor",
        "Pi0NewLineProcessor",
        "tokenizer_processor",
    ]


@pytest.mark.parametrize("family", ["pi0", "pi05"])
def test_bfloat16_stays_near(family: str, tmp_path: Path) -> None:
    stored = {**np.load(FIXTURES / "images.npz"), **np.load(FIXTURES / family / "reference.npz")}
    np.savez(tmp_path / "reference.npz", **stored)
    wanted = request_for(
        family, FIXTURES / family / "7", tmp_path / "out", dtype="bfloat16", reference=tmp_path / "reference.npz"
    )
    told = convert_here(wanted)["verification"]["actions"]
    assert 1e-4 < told["largestDifference"] <= told["tolerance"] == 5e-2
    policy = build(load_config(tmp_path / "out"), open_openpi(FIXTURES / family / "7").sizes)
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert {name: tensor.dtype for name, tensor in weights.items()} == {
        name: tensor.dtype for name, tensor in policy.state_dict().items()
    }


def test_the_tokenizer_travels_along(tmp_path: Path) -> None:
    """From there alone, offline: the fresh process runs the whole preprocessor with it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<bos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    model = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")
    tokenizer.save_pretrained(tmp_path / "words")
    out = tmp_path / "out"
    report = convert(request_for("pi05", FIXTURES / "pi05" / "7", out, tokenizer=str(tmp_path / "words")))
    assert report["verification"]["agrees"]
    assert (out / "tokenizer" / "tokenizer.json").is_file()
    assert len(list((out / "hub").glob("models--google--paligemma-3b-pt-224/snapshots/*/tokenizer.json"))) == 1


def test_chunk_and_lengths_are_written(converted: Converted) -> None:
    config = json.loads((converted.directory / "config.json").read_text())
    assert (config["chunk_size"], config["n_action_steps"]) == (10, 10)
    assert config["tokenizer_max_length"] == LENGTH[converted.family]
    assert list(config["input_features"])[:3] == list(CAMERA_MAP.values())
    assert config["input_features"]["observation.state"]["shape"] == [8]
    assert config["output_features"]["action"]["shape"] == [7]
    assert config["relative_exclude_joints"] == ["dimension_006"]
