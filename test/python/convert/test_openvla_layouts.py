"""OpenVLA's published layout, its native one and our plugin: the same bits under other names."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from vla_convert import openvla
from vla_convert.answers import Request
from vla_convert.convert import CONVERSIONS, convert
from vla_convert.openvla import between_openvla, compare_renamed, open_openvla
from vla_runtime.errors import UserError
from vla_runtime.modeling.composed import ComposedVLA
from vla_runtime.modeling.openvla import openvla_config, preprocessor_json
from vla_runtime.weights import write_weights

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 324,
    "pad_token_id": 319,
}
TINY = {
    "model_type": "openvla",
    "arch_specifier": "no-align+fused-gelu-mlp",
    "timm_model_ids": ["test_vit2", "test_vit"],
    "timm_override_act_layers": [None, None],
    "image_sizes": [32, 32],
    "pad_to_multiple_of": 4,
    "n_action_bins": 16,
    "text_config": LLAMA,
}
STATISTICS = {
    "mean": [0.1] * 7,
    "std": [0.2] * 7,
    "q01": [-0.5, -0.4, 0.25, -0.1, 0.0, -1.5, 0.0],
    "q99": [0.5, 0.6, 0.25, 0.3, 1.0, 1.5, 1.0],
    "mask": [True] * 6 + [False],
}
NORM_STATS = {"bridge": {"action": STATISTICS, "num_transitions": 3}}


@pytest.fixture(autouse=True)
def tiny_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(openvla.BASE_VLMS, "prism-tiny", TINY)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A directory as OpenVLA's converter writes it: bf16, several files, statistics in config.json."""
    directory = tmp_path / "hf"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({**TINY, "norm_stats": NORM_STATS}))
    config = openvla_config(TINY)
    (directory / "preprocessor_config.json").write_text(json.dumps(preprocessor_json(config)))
    (directory / "tokenizer_config.json").write_text("{}")
    (directory / "tokenizer.json").write_text('{"words": []}')
    torch.manual_seed(2)
    with torch.device("meta"):
        model = ComposedVLA(config)
    write_weights(
        directory,
        ((name, torch.randn(tensor.shape).bfloat16()) for name, tensor in model.state_dict().items()),
        shard_bytes=100_000,
    )
    return directory


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return {
        name: tensor for file in sorted(directory.glob("*.safetensors")) for name, tensor in load_file(file).items()
    }


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return set(first) == set(second) and all(
        first[name].dtype == second[name].dtype and torch.equal(first[name], second[name]) for name in first
    )


def convert_here(request: Request) -> dict[str, Any]:
    """As `convert`, but verified in this process, which knows the tiny architecture's native name."""
    request.target.mkdir()
    job, facts = between_openvla(request, request.target)
    told = compare_renamed(job)
    assert told["agrees"], told["summary"]
    return facts


def to(layout: str, source_layout: str, source: Path, target: Path, **changes: Any) -> Request:
    return replace(Request(source_layout, source, layout, target), **changes)


def test_native_and_back(published: Path, tmp_path: Path) -> None:
    convert_here(to("prismatic", "hf", published, tmp_path / "native"))
    native = torch.load(tmp_path / "native" / "checkpoints" / "latest-checkpoint.pt", weights_only=True)["model"]
    assert set(native) == {"vision_backbone", "projector", "llm_backbone"}
    assert {name.split(".")[0] for name in native["vision_backbone"]} == {"dino_featurizer", "siglip_featurizer"}
    assert "dino_featurizer.blocks.0.ls1.gamma" in native["vision_backbone"]
    assert {"projector.0.weight", "projector.2.bias", "projector.4.weight"} <= set(native["projector"])
    assert "llm.lm_head.weight" in native["llm_backbone"]
    assert json.loads((tmp_path / "native" / "config.json").read_text()) == {"vla": {"base_vlm": "prism-tiny"}}
    assert json.loads((tmp_path / "native" / "dataset_statistics.json").read_text()) == NORM_STATS

    convert_here(to("hf", "prismatic", tmp_path / "native", tmp_path / "again"))
    assert equal(weights(published), weights(tmp_path / "again"))
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again["norm_stats"] == NORM_STATS
    assert openvla_config(again) == openvla_config(TINY)
    assert (tmp_path / "again" / "preprocessor_config.json").read_text() == json.dumps(
        json.loads((published / "preprocessor_config.json").read_text()), indent=2
    ) + "\n"


def test_swapped_towers_are_noticed(published: Path, tmp_path: Path) -> None:
    """Where the towers have equal shapes only the bits can tell."""
    shutil.copytree(published, tmp_path / "other")
    for file in (tmp_path / "other").glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            if "blocks.0.norm1.weight" in name:
                tensors[name] = tensor.roll(1)
        save_file(tensors, file, metadata={"format": "pt"})
    job = openvla.RenamedJob("hf", str(published), "hf", str(tmp_path / "other"))
    told = compare_renamed(job)
    assert not told["agrees"] and len(told["different"]) == 2


ANSWERS: dict[str, Any] = {"cameras": {"primary": "observation.images.top"}, "crop": "0.9"}


def test_plugin_and_back(published: Path, tmp_path: Path) -> None:
    report = convert(to("plugin", "hf", published, tmp_path / "plugin", **ANSWERS))  # with the fresh process
    assert report["verification"]["agrees"] and "equal bit by bit" in report["verification"]["summary"]
    policy = tmp_path / "plugin" / "policy"
    config = json.loads((policy / "config.json").read_text())
    assert (config["type"], config["crop"], config["cameras"]) == ("vla_composed", 0.9, ANSWERS["cameras"])
    assert equal(weights(published), load_file(policy / "model.safetensors"))
    assert (policy / "tokenizer" / "tokenizer.json").read_text() == '{"words": []}'
    assert (tmp_path / "plugin" / "lerobot_policy_vla_composed" / "pyproject.toml").is_file()

    convert_here(to("hf", "plugin", tmp_path / "plugin", tmp_path / "again"))
    assert equal(weights(published), weights(tmp_path / "again"))
    action = json.loads((tmp_path / "again" / "dataset_statistics.json").read_text())["dataset"]["action"]
    assert action["mask"] == STATISTICS["mask"]
    assert action["q01"][:6] == pytest.approx(STATISTICS["q01"][:6]) and action["q99"][:6] == pytest.approx(
        STATISTICS["q99"][:6]
    )
    convert_here(to("prismatic", "plugin", tmp_path / "plugin", tmp_path / "native"))
    assert open_openvla("prismatic", tmp_path / "native").config == openvla_config(TINY)


def test_the_plugins_actions_are_openvlas(published: Path, tmp_path: Path) -> None:
    """Its saved postprocessor against OpenVLA's formula: masked dimensions pass, constant ones stay."""
    from lerobot.policies.factory import make_pre_post_processors
    from vla_runtime.lerobot_plugin import VLAComposedConfig

    convert_here(to("plugin", "hf", published, tmp_path / "plugin", **ANSWERS))
    policy = tmp_path / "plugin" / "policy"
    config = VLAComposedConfig.from_pretrained(str(policy))
    _, after = make_pre_post_processors(config, pretrained_path=str(policy))
    x = torch.tensor([[-1.0, 0.0, 0.3, 1.0, 0.5, -0.25, 0.75]])
    low, high = torch.tensor(STATISTICS["q01"]), torch.tensor(STATISTICS["q99"])
    meant = torch.where(torch.tensor(STATISTICS["mask"]), 0.5 * (x + 1) * (high - low) + low, x)
    assert torch.allclose(after(x), meant, atol=1e-6)


def test_answers_are_asked_for_at_once(published: Path, tmp_path: Path) -> None:
    (published / "tokenizer_config.json").unlink()
    (published / "dataset_statistics.json").write_text(json.dumps({"fractal": {"action": STATISTICS}}))
    asked = to("plugin", "hf", published, tmp_path / "plugin")
    with pytest.raises(
        UserError,
        match=r"(?s)Add:\n  --camera primary=.*\n  --crop .*\n  --asset-id .*: bridge, fractal\n  --tokenizer",
    ):
        convert(asked)
    complete = replace(asked, **ANSWERS, asset_id="bridge", tokenizer=str(tmp_path))
    with pytest.raises(UserError, match="no tokenizer_config.json is there"):
        convert(complete)
    with pytest.raises(UserError, match="--crop 2: a share between 0 and 1"):
        (published / "tokenizer_config.json").write_text("{}")
        convert(replace(complete, crop="2", tokenizer=None))
    assert not (tmp_path / "plugin").exists() and not (tmp_path / "plugin.partial").exists()


def test_bad_input(published: Path, tmp_path: Path) -> None:
    def refused(match: str, layout: str = "hf", source: Path = published, target: str = "prismatic") -> None:
        with pytest.raises(UserError, match=match):
            convert(to(target, layout, source, tmp_path / "out"))
        assert not (tmp_path / "out").exists()

    native = tmp_path / "native"
    convert_here(to("prismatic", "hf", published, native))
    (native / "checkpoints" / "step-1.pt").write_bytes(b"x")
    (native / "checkpoints" / "latest-checkpoint.pt").rename(native / "checkpoints" / "step-2.pt")
    refused(r"several checkpoints \(step-1.pt, step-2.pt\). Name one: prismatic:.*step-2.pt", "prismatic", native, "hf")
    refused("cannot be read as a native checkpoint", "prismatic", native / "checkpoints" / "step-1.pt", "hf")
    (native / "config.json").write_text('{"vla": {"base_vlm": "prism-other"}}')
    refused("vla.base_vlm is 'prism-other'; known are", "prismatic", native / "checkpoints" / "step-2.pt", "hf")

    original = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps({**original, "norm_stats": {}}))
    refused("has no statistics")
    (published / "config.json").write_text(json.dumps({**original, "image_sizes": [32, 64]}))
    refused(r"another shape")
    for change in ({"timm_model_ids": None}, {"norm_stats": {"bridge": {"action": {"q01": 1, "q99": 2}}}}):
        (published / "config.json").write_text(json.dumps({**original, **change}))
        statistics = published / "dataset_statistics.json"
        kept = statistics.read_text() if statistics.is_file() else None
        statistics.unlink(missing_ok=True)
        refused("is not as hf: directories are written")
        if kept is not None:
            statistics.write_text(kept)
    (published / "config.json").write_text('{"model_type": "llava"}')
    refused("of a llava, not of OpenVLA's layout")
    (published / "config.json").write_text(json.dumps(original))
    files = sorted(published.glob("*.safetensors"))
    tensors = load_file(files[0])
    lost = sorted(tensors)[0]
    tensors["extra.weight"] = tensors.pop(lost)
    save_file(tensors, files[0], metadata={"format": "pt"})
    refused(rf"(?s)missing \(1\):\n  {lost}.*not known \(1\):\n  extra.weight")
    refused("policy of type None|config.json is not there", "plugin", published, "hf")


def test_a_plugin_that_is_no_openvla(published: Path, tmp_path: Path) -> None:
    convert_here(to("plugin", "hf", published, tmp_path / "plugin", **ANSWERS))
    file = tmp_path / "plugin" / "policy" / "config.json"
    told = json.loads(file.read_text())
    told["vla"]["prompt_tokens"] = 17
    file.write_text(json.dumps(told))
    with pytest.raises(UserError, match="its layout cannot say this model's prompt_tokens"):
        convert(to("hf", "plugin", tmp_path / "plugin", tmp_path / "out"))


def test_every_pair_of_the_three_is_there() -> None:
    assert {pair for pair in CONVERSIONS if "openpi" not in pair} == {
        (source, target)
        for source in ("hf", "prismatic", "plugin")
        for target in ("hf", "prismatic", "plugin")
        if source != target
    }
