"""Towers and projectors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_models import batch, build, config, map_tower, timm_tower
from torch import nn
from transformers import AutoConfig, AutoModel
from vla_runtime.modeling.projectors import SpatialSoftArgmax
from vla_runtime.modeling.vision import VisionBackbone, dead_in_tower, group_norm

SIGLIP = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 16,
}


def transformers_tower(model_type: str, layer: int, **changes: Any) -> dict[str, Any]:
    return timm_tower(
        source="transformers", name="unused", layer=layer, config={"model_type": model_type, **SIGLIP}, **changes
    )


def blob(x: float, y: float, size: int = 16, width: float = 1.0) -> torch.Tensor:
    """A map [1, 1, size, size] with one bright spot at (x, y) in [-1, 1]."""
    grid = torch.linspace(-1, 1, size)
    return torch.exp(-((grid[None, :] - x) ** 2 + (grid[:, None] - y) ** 2) / (2 * (width / size) ** 2))[None, None]


def test_soft_argmax_finds_a_blob() -> None:
    projector = SpatialSoftArgmax(channels=1, points=1, width=4)
    with torch.no_grad():
        projector.filters.weight.fill_(1.0)
        projector.temperature.fill_(0.02)
    for x, y in ((0.0, 0.0), (-0.6, 0.2), (0.73, -0.9), (1.0, 1.0)):
        found = projector.key_points(blob(x, y))[0, 0]
        torch.testing.assert_close(found, torch.tensor([x, y]), rtol=0, atol=0.06)
    assert projector(blob(0, 0).expand(5, -1, -1, -1)).shape == (5, 1, 4)
    assert projector.temperature.shape == (1,)


def test_soft_argmax_of_a_rectangular_map_runs_from_minus_one_to_one() -> None:
    projector = SpatialSoftArgmax(channels=1, points=1, width=4)
    with torch.no_grad():
        projector.filters.weight.fill_(100.0)
    bright = torch.zeros(1, 1, 3, 5)
    bright[0, 0, 2, 0] = 1
    torch.testing.assert_close(projector.key_points(bright)[0, 0], torch.tensor([-1.0, 1.0]))


def test_each_camera_has_its_place_in_the_sequence() -> None:
    of = config(cameras=("front", "wrist", "side"))
    model, samples = build(of), batch(of)
    before = model._observe(samples)["images"]
    assert before is not None and before.shape == (3, 3 * 4, 32)
    for index, camera in enumerate(of.cameras):
        black = replace(samples, images={**samples.images, camera: torch.zeros_like(samples.images[camera])})
        after = model._observe(black)["images"]
        assert after is not None
        changed = (before != after).any(-1).unflatten(1, (3, 4)).all(-1)
        assert changed.tolist() == [[i == index for i in range(3)]] * 3


def test_cameras_of_different_sizes_are_resized() -> None:
    of = config()
    model, samples = build(of), batch(of)
    images = {**samples.images, "wrist": torch.randint(0, 256, (3, 3, 48, 64), dtype=torch.uint8)}
    assert model.predict(replace(samples, images=images)).shape == (3, 3, 4)


def test_uint8_and_float_images_are_the_same() -> None:
    of = config()
    model, samples = build(of), batch(of)
    floats = {camera: image.double() / 255 for camera, image in samples.images.items()}
    assert torch.equal(model.predict(replace(samples, images=floats)), model.predict(samples))


def test_a_timm_tower_gives_the_block_of_its_layer_without_prefix_tokens() -> None:
    for layer in (-1, -2, 0):
        backbone = VisionBackbone([timm_tower("test_vit2", layer=layer)], "channels")
        images = torch.rand(2, 3, 32, 32)
        pixels = (images - torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)) / torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
        model: Any = backbone.featurizer
        index = layer % len(model.blocks)
        last = index == len(model.blocks) - 1
        expected = model.get_intermediate_layers(pixels, n=[index], norm=last)[0]
        assert expected.shape == (2, 4, 64)
        torch.testing.assert_close(backbone(images, torch.float32), expected)


def test_fusing_on_channels_and_in_sequence() -> None:
    towers = [timm_tower("test_vit2"), timm_tower(mean=[0.5] * 3, std=[0.5] * 3)]
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    for fuse, shape in (("channels", (2, 4, 128)), ("sequence", (2, 8, 64))):
        torch.manual_seed(0)
        both: Any = VisionBackbone(towers, fuse)
        assert both(images, torch.float32).shape == shape and both.channels == shape[-1]
        names = {name.split(".")[0] for name, _ in both.named_parameters()}
        assert names == {"featurizer", "fused_featurizer"}
        single: Any = VisionBackbone(towers[1:], "channels")
        single.featurizer.load_state_dict(both.fused_featurizer.state_dict())
        second = both(images, torch.float32)[..., 64:] if fuse == "channels" else both(images, torch.float32)[:, 4:]
        torch.testing.assert_close(single(images, torch.float32), second)


def test_towers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens and towers that give maps"):
        VisionBackbone([timm_tower(), map_tower()], "channels")
    with pytest.raises(ValueError, match=r"widths are \[24, 40\]"):
        VisionBackbone([map_tower(), map_tower("convnext_atto")], "sequence")
    with pytest.raises(ValueError, match="no patch tokens"):
        VisionBackbone([timm_tower("test_resnet")], "channels")


@pytest.mark.parametrize("name", ["test_convnext", "test_resnet", "lcnet_035"])
def test_a_map_tower_holds_no_layer_behind_its_output(name: str) -> None:
    backbone = VisionBackbone([map_tower(name, norm="group")], "channels")
    feature_map = backbone(torch.rand(2, 3, 32, 32), torch.float32)
    assert feature_map.ndim == 4 and feature_map.shape[1] == backbone.channels
    feature_map.square().sum().backward()
    assert [n for n, p in backbone.named_parameters() if p.grad is None] == []


def test_group_norm_replaces_batch_norm_and_does_not_see_the_batch() -> None:
    backbone = VisionBackbone([map_tower("test_resnet", norm="group")], "channels").train()
    assert not any(isinstance(module, nn.BatchNorm2d) for module in backbone.modules())
    images = torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(backbone(images, torch.float32)[:1], backbone(images[:1], torch.float32))
    for channels in (3, 8, 24, 64, 130, 512):
        assert channels % group_norm(channels) == 0 and group_norm(channels) <= 32


def test_native_batch_norm_keeps_its_statistics() -> None:
    backbone = VisionBackbone([map_tower("test_resnet")], "channels").train()
    before = {name: buffer.clone() for name, buffer in backbone.named_buffers()}
    images = torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(backbone(images, torch.float32)[:1], backbone(images[:1], torch.float32))
    assert all(torch.equal(buffer, before[name]) for name, buffer in backbone.named_buffers())


@pytest.mark.parametrize("model_type", ["siglip_vision_model", "clip_vision_model", "dinov2", "dinov2_with_registers"])
@pytest.mark.parametrize("layer", [-1, -2])
def test_a_transformers_tower_gives_its_hidden_states_and_knows_its_dead_parameters(
    model_type: str, layer: int
) -> None:
    tower = transformers_tower(model_type, layer)
    backbone = VisionBackbone([tower], "channels").train()
    images = torch.rand(2, 3, 32, 32)
    model: Any = backbone.featurizer
    pixels = (images - torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)) / torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    tokens = backbone(images, torch.float32)
    assert tokens.shape == (2, 4, 32)
    whole = model(pixel_values=pixels, output_hidden_states=True)
    expected = whole.last_hidden_state if layer == -1 else whole.hidden_states[layer]
    torch.testing.assert_close(tokens, expected[:, -4:])
    tokens.square().sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == set(dead_in_tower(model, tower))


def test_a_tower_from_a_directory_of_a_two_tower_model(tmp_path: Path) -> None:
    vision = AutoConfig.for_model("siglip_vision_model", **SIGLIP)
    text = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 99,
    }
    AutoConfig.for_model("siglip", vision_config=vision.to_dict(), text_config=text).save_pretrained(tmp_path)
    tower = timm_tower(source="transformers", name=str(tmp_path), layer=-2)
    backbone = VisionBackbone([tower], "channels")
    assert type(backbone.featurizer).__name__ == "SiglipVisionModel"
    of = config(vision=[tower])
    packed = of.self_contained()
    assert packed.vision[0]["config"]["model_type"] == "siglip_vision_model"
    assert (
        type(AutoModel.from_config(AutoConfig.for_model(**packed.vision[0]["config"]))).__name__ == "SiglipVisionModel"
    )


def test_pixels_are_resized_with_antialiasing() -> None:
    backbone = VisionBackbone([timm_tower()], "channels")
    large = torch.rand(1, 3, 64, 64)
    small = F.interpolate(large, size=(32, 32), mode="bilinear", antialias=True)
    torch.testing.assert_close(backbone(large, torch.float32), backbone(small, torch.float32))


@pytest.mark.parametrize("kind", ["linear", "mlp", "fusedMlp", "spatialSoftArgmax"])
def test_projectors_have_the_contracts_names(kind: str) -> None:
    sizes = {"mlp": {"layers": 2}, "spatialSoftArgmax": {"points": 5}}.get(kind, {})
    of = config(vision=[map_tower()], projector={"kind": kind, **sizes})
    names = {name for name, _ in build(of).projector.named_parameters()}
    layers = {
        "linear": ["fc1"],
        "mlp": ["fc1", "fc2"],
        "fusedMlp": ["fc1", "fc2", "fc3"],
        "spatialSoftArgmax": ["linear"],
    }[kind]
    expected = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert names == expected | ({"temperature", "filters.weight"} if kind == "spatialSoftArgmax" else set())
    with pytest.raises(ValueError, match="Unknown projector"):
        build(config(projector={"kind": "magic"}))
