"""ACT, Diffusion Policy and a policy that only has LeRobot's scalar loss, small, as declarations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchvision
from safetensors.torch import save_file
from tiny import tokenizer
from torch import nn
from torchvision.models.resnet import BasicBlock
from transformers import CLIPConfig, CLIPTextConfig, CLIPTextModel, CLIPVisionConfig, CLIPVisionModel
from vla_runtime.policies.spec import PolicySpec

SIZE, STATE, ACTION = 24, 2, 3


class SmallResNet(nn.Module):
    """A ResNet of 16 channels with torchvision's names: LeRobot takes any `torchvision.models.resnet...` as a backbone."""

    def __init__(
        self, weights: None = None, norm_layer: Callable[[int], nn.Module] = nn.BatchNorm2d, **_: object
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.bn1 = norm_layer(16)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(16, 16, norm_layer=norm_layer))
        self.layer2 = nn.Sequential(BasicBlock(16, 16, norm_layer=norm_layer))
        self.layer3 = nn.Sequential(BasicBlock(16, 16, norm_layer=norm_layer))
        self.layer4 = nn.Sequential(
            BasicBlock(16, 16, norm_layer=norm_layer), BasicBlock(16, 16, norm_layer=norm_layer)
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)


torchvision.models.resnet_small = SmallResNet  # pyright: ignore[reportAttributeAccessIssue]
MODES: dict[str, Any] = {"STATE": "MEAN_STD", "ACTION": "MIN_MAX", "VISUAL": "MEAN_STD"}
ACT: dict[str, Any] = {
    "chunk_size": 4,
    "n_action_steps": 4,
    "dim_model": 16,
    "n_heads": 2,
    "dim_feedforward": 32,
    "n_encoder_layers": 2,
    "n_decoder_layers": 1,
    "n_vae_encoder_layers": 2,
    "latent_dim": 4,
    "dropout": 0.0,
    "vision_backbone": "resnet_small",
    "pretrained_backbone_weights": None,
}
DIFFUSION: dict[str, Any] = {
    "n_obs_steps": 2,
    "horizon": 4,
    "n_action_steps": 3,
    "drop_n_last_frames": 0,
    "down_dims": [8, 16],
    "n_groups": 4,
    "kernel_size": 3,
    "diffusion_step_embed_dim": 8,
    "spatial_softmax_num_keypoints": 4,
    "num_train_timesteps": 20,
    "num_inference_steps": 3,
    "use_group_norm": True,
    "vision_backbone": "resnet_small",
    "pretrained_backbone_weights": None,
}


def act(**changes: Any) -> PolicySpec:
    """ACT; `changes` are fields of the declaration, of which `config` adds to the small one."""
    return _spec("act", ACT, changes)


def diffusion(**changes: Any) -> PolicySpec:
    """Diffusion Policy with two observations and group normalisation."""
    return _spec("diffusion", DIFFUSION, changes)


def multi_task_dit(directory: Path, **changes: Any) -> PolicySpec:
    """LeRobot's multi-task DiT with flow matching over a small CLIP, of which the runtime knows nothing."""
    clip = str(clip_directory(directory))
    small = {
        "n_obs_steps": 2,
        "horizon": 4,
        "n_action_steps": 3,
        "drop_n_last_frames": 0,
        "objective": "flow_matching",
        "num_integration_steps": 3,
        "hidden_dim": 16,
        "num_layers": 2,
        "num_heads": 2,
        "dropout": 0.0,
        "timestep_embed_dim": 8,
        "vision_encoder_name": clip,
        "text_encoder_name": clip,
        "image_crop_shape": None,
        "tokenizer_max_length": 8,
    }
    return _spec("multi_task_dit", small, changes)


# transformers makes these classes' fields at run time
_TextConfig: Any = CLIPTextConfig
_VisionConfig: Any = CLIPVisionConfig
_Config: Any = CLIPConfig


def clip_directory(directory: Path) -> Path:
    """A CLIP of the smallest size, both halves and a tokenizer; LeRobot asks for `clip` in the name."""
    target = directory / "small-clip"
    if target.exists():
        return target
    words: dict[str, Any] = {
        "vocab_size": 300,
        "max_position_embeddings": 8,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    shared: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        text = CLIPTextModel(
            _TextConfig(
                **words,
                **shared,
            )
        )
        vision = CLIPVisionModel(_VisionConfig(image_size=SIZE, patch_size=8, **shared))
    state = {**text.state_dict(), **vision.state_dict()}
    target.mkdir(parents=True)
    vision.save_pretrained(target)
    _Config(text_config=text.config.to_dict(), vision_config=vision.config.to_dict()).save_pretrained(target)
    save_file(
        {name: tensor.contiguous() for name, tensor in state.items()}, target / "model.safetensors", {"format": "pt"}
    )
    tokenizer().save_pretrained(target)
    return target


def _spec(kind: str, config: dict[str, Any], changes: dict[str, Any]) -> PolicySpec:
    values: dict[str, Any] = {
        "type": kind,
        "cameras": ("front",),
        "image_sizes": {"front": (SIZE, SIZE)},
        "state_dim": STATE,
        "action_dim": ACTION,
        "normalization": MODES,
        "imagenet_statistics": True,
        **changes,
    }
    return PolicySpec(**{**values, "config": {**config, **changes.get("config", {})}})
