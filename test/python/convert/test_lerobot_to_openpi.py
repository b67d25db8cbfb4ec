"""LeRobot's policy directories in the layout of openpi's PyTorch code, and from there back."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from openpi_fixtures import Converted, convert_here, request_for
from safetensors.torch import load_file, save_file
from vla_convert.answers import Request
from vla_convert.keys import EMBEDDING, HEAD, openpi_name
from vla_runtime.errors import UserError


def back(source: Path, target: Path, asset_id: str | None = "my_robot") -> Request:
    return Request("lerobot", source, "openpi", target, asset_id=asset_id, other_sizes=True)


@pytest.fixture(scope="module")
def returned(converted: Converted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("openpi") / "checkpoint"
    report = convert_here(back(converted.directory, target))
    assert report["verification"]["actions"]["largestDifference"] == 0.0
    assert report["verification"]["agrees"]
    return target


def test_weights_are_renamed_and_nothing_else(converted: Converted, returned: Path) -> None:
    before, after = load_file(converted.directory / "model.safetensors"), load_file(returned / "model.safetensors")
    assert set(after) == {openpi_name(name) for name in before if name != EMBEDDING}
    assert all(torch.equal(before[f"model.{name}"], tensor) for name, tensor in after.items())


def test_statistics_return(converted: Converted, returned: Path) -> None:
    path = Path("assets") / "my_robot" / "norm_stats.json"
    before, after = (json.loads((root / path).read_text())["norm_stats"] for root in (converted.source, returned))
    for role in ("state", "actions"):
        for name in ("mean", "std", "q01", "q99"):
            assert np.allclose(before[role][name], after[role][name], rtol=1e-6, atol=1e-6), (role, name)


def test_what_openpi_takes_from_elsewhere_is_said(converted: Converted, returned: Path) -> None:
    told = json.loads((returned / "conversion.json").read_text())
    assert told["relativeActions"] == [True] * 6 + [False]
    assert told["discreteState"] == (True if converted.family == "pi05" else None)
    text = "\n".join(told["notes"])
    assert "its JAX loader does not" in text and "DeltaActions" in text
    assert f"pi05={converted.family == 'pi05'}, action_dim=32, action_horizon=10" in text
    assert json.loads((returned / "config.json").read_text()) == {
        "action_dim": 32,
        "action_horizon": 10,
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
        "precision": "float32",
    }


def test_and_back_again_to_lerobot(converted: Converted, returned: Path, tmp_path: Path) -> None:
    """openpi's PyTorch layout: its config.json says the chunk, and the weights come out bit for bit."""
    wanted = request_for(converted.family, returned, tmp_path / "out", chunk=None)
    report = convert_here(wanted)
    assert report["conversion"]["from"]["layout"] == "openpi-pytorch" and report["conversion"]["chunk"] == 10
    assert "LeRobot's own renaming" in report["verification"]["actions"]["against"]
    assert report["verification"]["actions"]["largestDifference"] == 0.0
    first, second = (load_file(folder / "model.safetensors") for folder in (converted.directory, tmp_path / "out"))
    assert set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(UserError, match="--chunk 50, but config.json says action_horizon 10"):
        convert_here(request_for(converted.family, returned, tmp_path / "other", chunk=50))


@pytest.fixture
def copy(converted: Converted, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted.directory, tmp_path / "policy"))


def test_the_embedding_that_lerobot_uses_is_the_one(copy: Path, tmp_path: Path) -> None:
    """lm_head is not tied in LeRobot's class: a trained embedding differs from it."""
    weights = load_file(copy / "model.safetensors")
    weights[EMBEDDING] = weights[EMBEDDING] + 1
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    convert_here(back(copy, tmp_path / "out"))
    assert torch.equal(load_file(tmp_path / "out" / "model.safetensors")[openpi_name(HEAD)], weights[EMBEDDING])
    del weights[EMBEDDING]  # as written while the two were tied
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    convert_here(back(copy, tmp_path / "tied"))
    assert torch.equal(load_file(tmp_path / "tied" / "model.safetensors")[openpi_name(HEAD)], weights[HEAD])


def change_config(copy: Path, **changes: object) -> None:
    file = copy / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_bad_input(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def refused(match: str, asset_id: str | None = "my_robot") -> None:
        with pytest.raises(UserError, match=match):
            convert_here(back(copy, out, asset_id))
        assert not out.exists() and not (tmp_path / "out.partial").exists()

    refused(r"Add:\n  --asset-id ID", asset_id=None)
    refused("--asset-id ../x: a name is meant", asset_id="../x")
    original = (copy / "config.json").read_text()
    change_config(copy, max_period=10.0)
    refused(r"has no place for what .* says:\n  max_period is 10.0; in openpi it is 4.0")
    (copy / "config.json").write_text(original.replace('"STATE": "', '"STATE": "MIN_MAX", "WAS": "'))
    refused("STATE is normalised by MIN_MAX|LeRobot does not take")
    change_config(copy, **{**json.loads(original), "a_newer_field": 1})
    refused("LeRobot does not take .*config.json")
    (copy / "config.json").write_text(original)

    blind = json.loads(original)
    del blind["input_features"]["observation.state"]
    (copy / "config.json").write_text(json.dumps(blind))
    refused("are not as LeRobot writes them for pi05? .KeyError: 'observation.state'.|LeRobot does not take")
    (copy / "config.json").write_text(original)

    file = copy / "policy_preprocessor.json"
    text = file.read_text()
    file.write_text(
        text.replace('"pi0_new_line_processor"', '"own_step"').replace('"to_batch_processor"', '"own_step"')
    )
    refused("has a step own_step, which openpi has no counterpart of")
    file.unlink()
    refused("has no policy_preprocessor.json: it is no complete policy directory")
    file.write_text(text)

    step = next(step for step in json.loads(text)["steps"] if step.get("registry_name") == "normalizer_processor")
    state = load_file(copy / step["state_file"])
    save_file({name: values for name, values in state.items() if name != "action.std"}, copy / step["state_file"])
    refused("the preprocessor has no action.std")
    save_file(state, copy / step["state_file"])

    weights = load_file(copy / "model.safetensors")
    lost = weights.pop("model.action_in_proj.bias")
    save_file({**weights, "model.extra": lost}, copy / "model.safetensors")
    refused(r"(?s)missing \(1\):\n  model.action_in_proj.bias.*not known \(1\):\n  model.extra")
    (copy / "adapter_config.json").write_text("{}")
    refused("is an adapter .* Merge it into its base")
    shutil.rmtree(copy)
    refused("is not there, or is no directory")
