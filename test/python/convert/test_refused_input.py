"""What cannot be converted, with its message, before anything is written."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from openpi_fixtures import CAMERA_MAP, FIXTURES, request_for
from orbax_files import write_params
from safetensors.torch import save_file
from vla_convert.__main__ import main
from vla_convert.answers import Request
from vla_convert.convert import convert
from vla_convert.keys import jax_sizes, openpi_tensors
from vla_convert.openpi import open_openpi
from vla_convert.orbax import OrbaxParams
from vla_runtime.errors import UserError


def refused(request: Request, match: str) -> None:
    with pytest.raises(UserError, match=match):
        convert(request)
    target = request.target
    assert not target.with_name(f"{target.name}.partial").exists()
    assert not target.exists() or request.source == target or target.is_file() or any(target.iterdir())


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    bare = Request("openpi", FIXTURES / "pi05" / "7", "lerobot", tmp_path / "out", other_sizes=True)
    with pytest.raises(UserError) as caught:
        convert(bare)
    lines = str(caught.value).splitlines()
    assert lines[0] == "The checkpoint does not say everything that LeRobot's policy needs. Add:"
    assert [line.split("  ")[1] for line in lines[1:]] == [
        "--chunk N",
        "--tokenizer-length N",
        "--camera base_0_rgb=FEATURE",
        "--camera left_wrist_0_rgb=FEATURE",
        "--camera right_wrist_0_rgb=FEATURE",
        "--state-dim N",
        "--delta-actions MASK",
        "--discrete-state yes|no",
        "--tokenizer DIR|hub",
    ]
    assert "200 unless it was set" in lines[2]
    pi0 = replace(bare, source=FIXTURES / "pi0" / "7")
    with pytest.raises(UserError) as caught:
        convert(pi0)  # its statistics are narrower than the model: they are the true widths
    assert "--state-dim" not in str(caught.value) and "--discrete-state" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk": 0}, "--chunk 0: a positive number is meant"),
        ({"action_steps": 11}, "--action-steps 11 is not between 1 and the chunk of 10"),
        ({"state_dim": 9}, "--state-dim 9, but the statistics cover 8 dimensions"),
        ({"action_dim": 8}, "--action-dim 8, but the statistics cover 7 dimensions"),
        ({"delta_actions": "six"}, r"--delta-actions six: whole numbers as in openpi's make_bool_mask"),
        ({"delta_actions": "8"}, "--delta-actions 8 is 8 dimensions long, an action has 7"),
        ({"delta_actions": "7", "state_dim": 6}, "dimension 6 is relative to a state of only 6 dimensions"),
        ({"action_names": ["a", "b"]}, "--action-names: 7 different names are meant"),
        (
            {"action_names": ["x", "y", "z", "gripper_roll", "pitch", "yaw", "gripper"]},
            "gripper is absolute and gripper_roll relative",
        ),
        (
            {"cameras": {**CAMERA_MAP, "front": "observation.images.f"}},
            "--camera front=.*: openpi's cameras are base_0_rgb",
        ),
        ({"cameras": {**CAMERA_MAP, "base_0_rgb": "top"}}, "image features are named observation.images.NAME"),
        (
            {"cameras": {**CAMERA_MAP, "left_wrist_0_rgb": "observation.images.top"}},
            "base_0_rgb and left_wrist_0_rgb are both observation.images.top",
        ),
        ({"cameras": dict.fromkeys(CAMERA_MAP, "none")}, "Every --camera is none"),
        ({"discrete_state": True}, "--discrete-state yes is for pi0.5"),
        ({"asset_id": "droid"}, "has no statistics of droid; it has those of my_robot"),
        ({"tokenizer": "/nowhere"}, "no tokenizer.json and no tokenizer.model is there"),
        ({"reference": Path("/nowhere.npz")}, "--reference /nowhere.npz is not there"),
        ({"other_sizes": False}, "none of the published sizes .* With --other-sizes it is converted all the same"),
    ],
)
def test_answers_that_contradict_the_checkpoint(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    refused(request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out", **change), message)


def test_statistics_as_wide_as_the_model_do_not_say_the_true_width(pi0_copy: Path, tmp_path: Path) -> None:
    file = pi0_copy / "assets" / "my_robot" / "norm_stats.json"
    wide = {role: {name: [1.0] * 32 for name in ("mean", "std")} for role in ("state", "actions")}
    file.write_text(json.dumps({"norm_stats": wide}))
    refused(
        request_for("pi0", pi0_copy, tmp_path / "out", state_dim=None),
        r"(?s)--state-dim N .*both 32 wide.*--action-dim N .*both 32 wide",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": [1.0] * 6 + [-1.0]}, "actions: std is negative in dimension 6"),
        ({"std": [1.0] * 6}, "the statistics of actions have different lengths"),
        ({"std": [1.0] * 6 + [float("nan")]}, "actions.std is not finite in dimension 6"),
        ({"std": ["wide"] * 7}, "is not as openpi writes it"),
        ({"std": []}, "actions has no std"),
    ],
)
def test_statistics_that_are_none(change: dict[str, Any], message: str, pi0_copy: Path, tmp_path: Path) -> None:
    file = pi0_copy / "assets" / "my_robot" / "norm_stats.json"
    told = json.loads(file.read_text())
    told["norm_stats"]["actions"].update(change)
    file.write_text(json.dumps(told))
    refused(request_for("pi0", pi0_copy, tmp_path / "out"), message)


STORED = {**np.load(FIXTURES / "images.npz"), **np.load(FIXTURES / "pi0" / "reference.npz")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": STORED["noise"][:, :5], "actions": STORED["actions"][:, :5]}, "chunk of 10 has .10, 32."),
        ({"noise": STORED["noise"][:, :5]}, "noise is of shape .2, 5, 32., actions of .2, 10, 32."),
        ({"state": STORED["state"][:, :5]}, "a sample of state is .5., and this model .* has .32."),
        ({"tok": STORED["tok"] + 10**6}, "it has a token 10.*, and the model embeds"),
        ({"mask": STORED["mask"][:2]}, "mask has 2 rows for 3 cameras"),
        ({"mask": STORED["mask"][:, 0]}, "mask has 1 dimensions, 2 are meant"),
        ({"tok": STORED["tok"][:1], "tokmask": STORED["tokmask"][:1]}, "different numbers of samples .*tok 1"),
        ({"img_base_0_rgb": STORED["img_base_0_rgb"][:, :64, :64]}, "a sample of img_base_0_rgb is .64, 64, 3."),
        ({"img_base_0_rgb": None, "mask": STORED["mask"][1:]}, "no pictures of base_0_rgb, which is mapped to"),
        ({"actions": None}, "lacks actions"),
    ],
)
def test_a_reference_of_another_model(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    stored = {name: values for name, values in {**STORED, **change}.items() if values is not None}
    np.savez(tmp_path / "reference.npz", **stored)
    asked = request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out", reference=tmp_path / "reference.npz")
    refused(asked, message)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut off", "array", "objects"])
def test_a_reference_that_is_no_batch(content: bytes | str, tmp_path: Path) -> None:
    file = tmp_path / "reference.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content == "array":
        with file.open("wb") as out:
            np.save(out, np.zeros(3))
    else:
        np.savez(file, actions=np.array([{}], dtype=object))
    asked = request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out", reference=file)
    refused(asked, "is no .npz file of arrays")


def test_a_tokenizer_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "tokenizer.json").write_text("{}")
    asked = request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out", tokenizer=str(tmp_path / "words"))
    refused(asked, "--tokenizer .*words: transformers cannot load it")


def test_a_target_that_cannot_be_made_is_told_without_a_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    request = {
        "from": {"layout": "openpi", "path": str(FIXTURES / "pi0" / "7")},
        "to": {"layout": "lerobot", "path": str(tmp_path / "file" / "out")},
    }
    asked, told = tmp_path / "request.json", tmp_path / "report.json"
    asked.write_text(json.dumps(request))
    disabled = logging.root.manager.disable
    try:
        assert main(str(asked), str(told)) == 2
    finally:
        logging.disable(disabled)
    report = json.loads(told.read_text())
    assert not report["ok"] and "file/out" in report["message"] and "Not a directory" in report["message"]


def test_what_another_conversion_writes_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "out.partial"
    other.mkdir()
    (other / "model.safetensors").write_text("theirs")
    with pytest.raises(UserError, match=r"out.partial is there already: another conversion writes it now"):
        convert(request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out"))
    assert (other / "model.safetensors").read_text() == "theirs"


def test_a_horizon_that_is_none(tmp_path: Path) -> None:
    told = tmp_path / "config.json"
    told.write_text('{"action_horizon": "ten"}')
    sizes = jax_sizes(OrbaxParams(FIXTURES / "pi0" / "7" / "params").leaves, "")
    save_file(
        {name: torch.zeros(shape) for name, shape in openpi_tensors(sizes).items()}, tmp_path / "model.safetensors"
    )
    with pytest.raises(UserError, match="says action_horizon 'ten'; a whole number above zero is meant"):
        open_openpi(tmp_path)


def test_no_norm_stats(pi0_copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(pi0_copy / "assets")
    refused(request_for("pi0", pi0_copy, tmp_path / "out"), r"has no assets/<asset id>/norm_stats\.json")


def test_cut_off_in_the_middle(pi0_copy: Path, tmp_path: Path) -> None:
    files = sorted((pi0_copy / "params" / "ocdbt.process_0" / "d").iterdir(), key=lambda path: path.stat().st_size)
    files[-1].write_bytes(files[-1].read_bytes()[: files[-1].stat().st_size // 2])
    refused(request_for("pi0", pi0_copy, tmp_path / "out"), "cut off or damaged")


def test_never_finished(pi0_copy: Path, tmp_path: Path) -> None:
    unfinished = pi0_copy.rename(pi0_copy.with_name("8.orbax-checkpoint-tmp-17"))
    refused(request_for("pi0", unfinished, tmp_path / "out"), "was never finished: orbax renames it")


def leaves_of(directory: Path) -> dict[str, np.ndarray]:
    params = OrbaxParams(directory / "params")
    return {name: params.whole(name).numpy() for name in params.leaves}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"PaliGemma/llm/final_norm_1/scale": None}, r"missing \(1\):\n  PaliGemma/llm/final_norm_1/scale"),
        ({"value_head/kernel": np.zeros((3, 3), np.float32)}, r"not known \(1\):\n  value_head/kernel"),
        ({"action_in_proj/bias": np.zeros(3, np.float32)}, r"action_in_proj/bias: \[3\] instead of \[64\]"),
        (
            {"PaliGemma/llm/layers/mlp/gating_einsum_lora_a": np.zeros((4, 2, 64, 8), np.float32)},
            "holds LoRA leaves .* is in openpi's training configuration and not in the checkpoint",
        ),
    ],
)
def test_leaves_that_do_not_fit(
    change: dict[str, np.ndarray | None], message: str, pi0_copy: Path, tmp_path: Path
) -> None:
    leaves = {name: values for name, values in {**leaves_of(pi0_copy), **change}.items() if values is not None}
    shutil.rmtree(pi0_copy / "params")
    write_params(pi0_copy / "params", leaves)
    refused(request_for("pi0", pi0_copy, tmp_path / "out"), message)


def test_foreign_directories(tmp_path: Path, pi0_copy: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "pytorch_model.bin").write_bytes(b"x")
    refused(
        request_for("pi0", tmp_path / "foreign", tmp_path / "out"),
        r"no checkpoint of openpi: neither params/ \(JAX\) nor model.safetensors .* There is: pytorch_model.bin",
    )
    refused(request_for("pi0", tmp_path / "nowhere", tmp_path / "out"), "is not there, or is no directory")
    refused(
        request_for("pi0", pi0_copy.parent, tmp_path / "out"), r"holds checkpoints of 7\. Name one of them: openpi:.*/7"
    )
    (tmp_path / "foreign" / "model.safetensors").write_bytes(b"x" * 40)
    refused(request_for("pi0", tmp_path / "foreign", tmp_path / "out"), "is no safetensors file")
    (tmp_path / "foreign" / "config.json").write_text('{"type": "act"}')
    refused(request_for("pi0", tmp_path / "foreign", tmp_path / "out"), r"a LeRobot policy directory \(type act\)")


def test_the_target_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    refused(request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out"), "is not empty. Nothing is overwritten")
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    refused(request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "file"), "is a file. Nothing is overwritten")


def test_an_unknown_pair_of_layouts(tmp_path: Path) -> None:
    asked = replace(request_for("pi0", FIXTURES / "pi0" / "7", tmp_path / "out"), target_layout="hf")
    refused(asked, "openpi: to hf: is no conversion. There are: openpi: to lerobot:")
