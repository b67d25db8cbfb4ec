"""OpenVLA's layout: read and written back with the same keys, shapes and bits; the published sizes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from small_models import LLAMA, batch, partition
from vla_runtime.modeling.composed import ComposedVLA
from vla_runtime.modeling.openvla import (
    DEAD_PARAMETERS,
    PARAMETERS,
    openvla_config,
    openvla_json,
    preprocessor_json,
    published_7b,
)
from vla_runtime.weights import WeightAudit, initialise, read_headers, write_weights

STATS = {"bridge": {"action": {"q01": [0.0] * 7, "q99": [1.0] * 7, "mask": [True] * 6 + [False]}, "num_transitions": 3}}


def tiny() -> dict[str, Any]:
    """A `config.json` as OpenVLA writes it, with small parts."""
    return {
        "model_type": "openvla",
        "architectures": ["OpenVLAForActionPrediction"],
        "vision_backbone_id": "test_vit2+test_vit",
        "llm_backbone_id": "llama2-7b-pure",
        "arch_specifier": "no-align+fused-gelu-mlp",
        "use_fused_vision_backbone": True,
        "timm_model_ids": ["test_vit2", "test_vit"],
        "timm_override_act_layers": [None, None],
        "image_sizes": [32, 32],
        "image_resize_strategy": "resize-naive",
        "hf_llm_id": "meta-llama/Llama-2-7b-hf",
        "llm_max_length": 2048,
        "pad_token_id": 319,
        "pad_to_multiple_of": 4,
        "output_projector_states": False,
        "n_action_bins": 16,
        "norm_stats": STATS,
        "text_config": {**LLAMA, "vocab_size": 324, "pad_token_id": 319, "torch_dtype": "bfloat16"},
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }


def write(directory: Path, seed: int) -> dict[str, torch.Tensor]:
    """A directory in OpenVLA's layout: bf16, several files, an index."""
    (directory / "config.json").write_text(json.dumps(tiny()))
    model = ComposedVLA(openvla_config(tiny()))
    initialise(model, partition(model), seed=seed)
    torch.manual_seed(seed)
    state = {
        name: (tensor + 0.01 * torch.randn(tensor.shape)).bfloat16() for name, tensor in model.state_dict().items()
    }
    write_weights(directory, state.items(), shard_bytes=100_000)
    return state


def test_reading_and_writing_back_gives_the_same_keys_shapes_and_bits(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    write(source, seed=5)
    config = openvla_config(json.loads((source / "config.json").read_text()))
    with torch.device("meta"):
        model = ComposedVLA(config)
    WeightAudit(str(source), None, model).load(model)
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())  # masters
    write_weights(
        target, ((name, tensor.bfloat16()) for name, tensor in model.state_dict().items()), shard_bytes=100_000
    )
    (target / "config.json").write_text(json.dumps(openvla_json(config, STATS)))
    assert json.loads((target / "config.json").read_text()) == tiny()
    assert [file.name for file in sorted(source.iterdir())] == [file.name for file in sorted(target.iterdir())]
    for file in sorted(source.glob("*.safetensors")):
        assert file.read_bytes() == (target / file.name).read_bytes()
        with safe_open(file, framework="pt") as reader:
            assert reader.metadata() == {"format": "pt"}
    index = [json.loads((place / "model.safetensors.index.json").read_text()) for place in (source, target)]
    assert index[0] == index[1]


def test_dead_blocks_and_layer_scale_are_in_the_files(tmp_path: Path) -> None:
    state = write(tmp_path, seed=5)
    keys = set(read_headers(tmp_path))
    assert keys == set(state)
    assert "vision_backbone.featurizer.blocks.7.ls2.scale_factor" in keys
    assert {
        "vision_backbone.featurizer.fc_norm.weight",
        "vision_backbone.fused_featurizer.blocks.5.mlp.fc2.bias",
    } <= keys
    assert {
        "projector.fc1.weight",
        "projector.fc2.weight",
        "projector.fc3.bias",
        "language_model.lm_head.weight",
    } <= keys
    model = ComposedVLA(openvla_config(tiny()))
    dead = {".".join(name.split(".")[1:4]) for name in model.dead_parameters()}
    assert set(model.dead_parameters()) <= keys
    assert {
        "featurizer.blocks.7",
        "featurizer.fc_norm.weight",
        "fused_featurizer.blocks.5",
        "fused_featurizer.norm.bias",
    } <= dead
    assert not {"featurizer.blocks.6", "fused_featurizer.blocks.4"} & dead


def test_the_policy_reads_as_openvla_does() -> None:
    config = openvla_config(tiny())
    assert (config.cameras, config.mask, config.prompt_lower) == (("primary",), "causal", True)
    assert config.prompt == "In: What action should the robot take to {instruction}?\nOut:"
    assert config.prompt_trailing_token == 29_871
    model = ComposedVLA(config).double()
    assert model.bins is not None and (model.bins.vocabulary, model.bins.first, model.stop) == (320, 304, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.05)
    samples = batch(config)
    assert model(samples).shape == (3, 8) and model.predict(samples).shape == (3, 1, 7)


def test_the_trunks_sequence_is_begin_patches_prompt_actions() -> None:
    """OpenVLA's forward, written with transformers alone: patches behind the first token, right padding, causal."""
    config = openvla_config(tiny())
    torch.manual_seed(0)
    model = ComposedVLA(config).double()
    samples = batch(config, size=1)
    length = int(samples.prompt_mask.sum())
    ids = samples.prompt[:, :length]
    assert model.bins is not None and samples.actions is not None
    actions = model.bins.encode(samples.actions).flatten(1)
    seen = model._observe(samples)
    embed, trunk = model.language_model.embeddings, model.language_model
    whole = torch.cat([embed(ids[:, :1]), seen["images"], embed(ids[:, 1:]), embed(actions)], dim=1)  # type: ignore[list-item]
    logits = trunk.lm_head(trunk.base(inputs_embeds=whole).last_hidden_state)  # type: ignore[misc]
    labels = torch.cat([actions, torch.tensor([[2]])], dim=1)
    expected = torch.nn.functional.cross_entropy(logits[0, -8:], labels[0], reduction="none")
    torch.testing.assert_close(model(samples)[0], expected, rtol=1e-9, atol=0)


def test_openvla_7b_has_its_published_size() -> None:
    with torch.device("meta"):
        model = ComposedVLA(openvla_config(published_7b()))
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    assert sum(sizes.values()) == PARAMETERS == 7_541_237_184
    assert sum(sizes[name] for name in model.dead_parameters()) == DEAD_PARAMETERS == 43_080_480
    children = {name: sum(p.numel() for p in child.parameters()) for name, child in model.named_children()}
    assert children == {
        "vision_backbone": 303_230_976 + 427_680_704,
        "language_model": 6_738_939_904,
        "projector": 71_385_600,
    }
    assert model.bins is not None and (model.bins.first, model.bins.vocabulary) == (31_744, 32_000)
    assert "vision_backbone.fused_featurizer.attn_pool.latent" in sizes and len(sizes) == 982


def test_openvla_oft_adds_a_head_and_proprioception() -> None:
    config = openvla_config(published_7b(), chunk=8, regression={"hidden": 4096, "blocks": 2}, state_dim=8)
    with torch.device("meta"):
        model = ComposedVLA(config)
    assert config.mask == "full" and config.action["queries"] == "zero" and config.action["slots"] == 7
    assert model.action_head is not None and model.state_projector is not None
    assert sum(p.numel() for p in model.action_head.parameters()) == 151_117_831
    assert sum(p.numel() for p in model.state_projector.parameters()) == 16_818_176
    assert "action_head.model.mlp_resnet_blocks.1.ffn.1.weight" in model.state_dict()
    assert model.language_model.lm_head is None


def test_an_oft_head_starts_from_openvlas_weights(tmp_path: Path) -> None:
    state = write(tmp_path, seed=5)
    config = openvla_config(tiny(), chunk=3, regression={"hidden": 16, "blocks": 1}, state_dim=2)
    with torch.device("meta"):
        model = ComposedVLA(config)
    audit = WeightAudit(
        str(tmp_path),
        None,
        model,
        allow_missing=["action_head.*", "state_projector.*"],
        allow_unexpected=["language_model.lm_head.weight"],
    )
    initialise(model, partition(model), seed=1, loaded=[audit])
    audit.load(model)
    name = "language_model.model.embed_tokens.weight"
    assert torch.equal(model.state_dict()[name], state[name].float())
    samples = batch(config, dtype=torch.float32)
    assert model(samples).shape == (3, 3, 7)


@pytest.mark.parametrize("projector", [{"kind": "mlp", "layers": 3}, {"kind": "spatialSoftArgmax", "points": 3}])
def test_what_the_layout_cannot_hold_is_refused(projector: dict[str, Any]) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="has no projector"):
        openvla_json(replace(openvla_config(tiny()), projector=projector), {})
    with pytest.raises(ValueError, match="timm tower"):
        openvla_json(replace(openvla_config(tiny()), fuse="sequence"), {})


def test_pixel_statistics_are_the_preprocessors() -> None:
    preprocessor = {"means": [[0.1] * 3, [0.2] * 3], "stds": [[0.3] * 3, [0.4] * 3]}
    config = openvla_config(tiny(), preprocessor)
    assert [tower["mean"][0] for tower in config.vision] == [0.1, 0.2]
    again = preprocessor_json(config)
    assert (again["means"], again["stds"]) == (preprocessor["means"], preprocessor["stds"])
    assert again["input_sizes"] == [[3, 32, 32]] * 2


def test_a_directory_is_read_whole_by_plain_safetensors(tmp_path: Path) -> None:
    state = write(tmp_path, seed=5)
    read: dict[str, torch.Tensor] = {}
    for file in tmp_path.glob("*.safetensors"):
        read.update(load_file(file))
    assert all(torch.equal(read[name], tensor) for name, tensor in state.items())
