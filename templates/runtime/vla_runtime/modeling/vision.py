"""Vision towers from timm or transformers, one or several fused."""

import copy
from typing import Any, cast

import timm
import torch
import torch.nn.functional as F
from timm.layers.layer_scale import LayerScale as TimmLayerScale
from timm.layers.norm_act import BatchNormAct2d, GroupNormAct
from timm.models.efficientnet import EfficientNetFeatures
from timm.models.mobilenetv3 import MobileNetV3Features
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, CLIPVisionModel, PretrainedConfig

from .construct import real_buffers


class LayerScale(nn.Module):
    """timm's LayerScale under the parameter name of OpenVLA's HF checkpoints, `scale_factor` instead of `gamma`."""

    def __init__(self, width: int, init_values: float) -> None:
        super().__init__()
        self.init_values = init_values
        self.scale_factor = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The constant of the architecture."""
        nn.init.constant_(self.scale_factor, self.init_values)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        return x * self.scale_factor


def group_norm(channels: int) -> int:
    """Number of groups that replaces a batch norm: at most 32, at least 4 channels each where they divide."""
    groups = min(32, max(1, channels // 4))
    while channels % groups:
        groups -= 1
    return groups


def _replace_modules(module: nn.Module, norm: str) -> None:
    for name, child in module.named_children():
        if isinstance(child, TimmLayerScale):
            setattr(module, name, LayerScale(child.gamma.shape[0], child.init_values))
        elif norm == "group" and isinstance(child, BatchNormAct2d):
            old: Any = child
            new: Any = GroupNormAct(old.num_features, group_norm(old.num_features), eps=old.eps)
            new.drop, new.act = old.drop, old.act
            setattr(module, name, new)
        elif norm == "group" and isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.GroupNorm(group_norm(child.num_features), child.num_features, eps=child.eps))
        else:
            _replace_modules(child, norm)


def build_timm(tower: dict) -> nn.Module:
    """A timm model under its own parameter names, without classifier, uninitialised on the meta device.

    A map tower holds only the layers up to its output; a token tower keeps the blocks behind its output, because published
    checkpoints hold them (they are dead: no gradient reaches them).
    """
    options = dict(tower.get("options") or {})
    meta = torch.get_default_device().type == "meta"
    with real_buffers():
        if tower["output"] == "map":
            model = timm.create_model(
                tower["name"], pretrained=False, features_only=True, out_indices=[tower["layer"]], **options
            )
            if isinstance(
                model, EfficientNetFeatures | MobileNetV3Features
            ):  # the only ones that keep all their stages
                stages: Any = model
                stages.blocks = stages.blocks[: max(stages._stage_out_idx)]
        else:
            if meta:
                options["weight_init"] = "skip"  # drawing nothing takes a second per hundred layers on meta
            try:
                model = timm.create_model(
                    tower["name"], pretrained=False, num_classes=0, img_size=tower["image_size"], **options
                )
            except TypeError as error:
                if "unexpected keyword" not in str(error):
                    raise
                model = None  # no vision transformer
            if not isinstance(model, VisionTransformer):
                raise ValueError(
                    f"timm model {tower['name']!r} has no patch tokens. Use a vision transformer, or output: 'map'."
                )
        _replace_modules(model, tower["norm"])
    return model


def vision_config(tower: dict) -> PretrainedConfig:
    """The transformers configuration of a tower: `config` where it is written down, else read from directory or hub cache."""
    if tower.get("config") is not None:
        values = dict(tower["config"])
        config = AutoConfig.for_model(values.pop("model_type"), **values)
    else:
        config = AutoConfig.from_pretrained(tower["name"], revision=tower.get("revision"))
    config = getattr(config, "vision_config", config)  # of a two-tower model take the vision half
    config = copy.deepcopy(config)
    if hasattr(config, "image_size") and tower.get("image_size"):
        config.image_size = tower["image_size"]
    return config


def build_transformers(tower: dict) -> nn.Module:
    """A transformers vision model under its own parameter names."""
    with real_buffers():
        return AutoModel.from_config(
            vision_config(tower), dtype=torch.get_default_dtype(), attn_implementation=tower.get("attention", "sdpa")
        )


def longest_list(model: nn.Module) -> nn.ModuleList:
    """The list of repeated blocks of a model: its longest ModuleList."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    if not lists:
        raise ValueError(f"{type(model).__name__} has no list of blocks, so no layer can be chosen from it.")
    return max(lists, key=len)


class VisionBackbone(nn.Module):
    """Towers `featurizer`, `fused_featurizer`, `fused_featurizer_2`, ... as OpenVLA names them.

    All cameras of a batch go through each tower in one call.
    """

    def __init__(self, towers: list[dict], fuse: str) -> None:
        super().__init__()
        self.towers = towers
        self.fuse = fuse
        for index, tower in enumerate(towers):
            build = build_timm if tower["source"] == "timm" else build_transformers
            setattr(self, self.tower_name(index), build(tower))
            with real_buffers():
                self.register_buffer(f"mean_{index}", torch.tensor(tower["mean"]).view(3, 1, 1), persistent=False)
                self.register_buffer(f"std_{index}", torch.tensor(tower["std"]).view(3, 1, 1), persistent=False)
        widths = [self.tower_width(index) for index in range(len(towers))]
        if len({tower["output"] for tower in towers}) > 1:
            raise ValueError("Towers that give tokens and towers that give maps cannot be fused.")
        if fuse == "sequence" and len(set(widths)) > 1:
            raise ValueError(f"Towers concatenated in sequence share one projector, but their widths are {widths}.")
        self.channels = sum(widths) if fuse == "channels" else widths[0]

    @staticmethod
    def tower_name(index: int) -> str:
        """Name of the tower's submodule."""
        return ["featurizer", "fused_featurizer"][index] if index < 2 else f"fused_featurizer_{index}"

    def tower_width(self, index: int) -> int:
        """Channels of a tower's output."""
        tower, model = self.towers[index], getattr(self, self.tower_name(index))
        if tower["source"] == "transformers":
            return model.config.hidden_size
        if tower["output"] == "map":
            return model.feature_info.channels()[0]
        return model.embed_dim

    def train(self, mode: bool = True) -> "VisionBackbone":
        """Batch norms keep their stored statistics: those of a micro-batch would make the gradient depend on how it is cut."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def _run(self, index: int, x: Tensor) -> Tensor:
        tower = self.towers[index]
        model = cast(Any, getattr(self, self.tower_name(index)))
        if tower["source"] == "timm" and tower["output"] == "map":
            return model(x)[0]
        if tower["source"] == "timm":
            depth = len(model.blocks)
            block = tower["layer"] % depth
            return model.forward_intermediates(
                x, indices=[block], norm=block == depth - 1, stop_early=True, output_fmt="NLC", intermediates_only=True
            )[0]
        blocks = longest_list(model)
        block = tower["layer"] % len(blocks)
        if block == len(blocks) - 1:
            tokens = model(pixel_values=x).last_hidden_state
        else:
            # The hook sees what the block returns, behind the hooks of FSDP2, which were there first.
            seen: list[Tensor] = []
            handle = blocks[block].register_forward_hook(
                lambda module, args, output: seen.append(cast(Any, output[0] if isinstance(output, tuple) else output))
            )
            try:
                model(pixel_values=x)
            finally:
                handle.remove()
            tokens = seen[0]
        patches = (x.shape[-2] // model.config.patch_size) * (x.shape[-1] // model.config.patch_size)
        return tokens[:, -patches:]  # class and register tokens come first

    def forward(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Images of all cameras to features.

        Args:
            images: [N, 3, H, W], uint8 or float in [0, 1]; resized to each tower's size.
            dtype: compute dtype of the towers.

        Returns:
            Tokens [N, T, channels], or a map [N, channels, h, w].
        """
        work = torch.float64 if dtype == torch.float64 else torch.float32
        pixels = images.to(work) / 255 if images.dtype == torch.uint8 else images.to(work)
        features = []
        for index, tower in enumerate(self.towers):
            x, size = pixels, (tower["image_size"], tower["image_size"])
            if x.shape[-2:] != size:
                x = F.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
            mean, std = cast(Tensor, getattr(self, f"mean_{index}")), cast(Tensor, getattr(self, f"std_{index}"))
            features.append(self._run(index, ((x - mean.to(work)) / std.to(work)).to(dtype)))
        if len(features) == 1:
            return features[0]
        if features[0].ndim == 4:
            return torch.cat(features, dim=1)
        return torch.cat(features, dim=-1 if self.fuse == "channels" else 1)


def dead_in_tower(model: nn.Module, tower: dict) -> list[str]:
    """Names within a tower of parameters that never receive a gradient: all behind the block that is given out.

    Args:
        model: the tower.
        tower: its configuration.
    """
    if tower["output"] == "map":
        return []
    if tower["source"] == "timm":
        depth = len(cast(Any, model).blocks)
        block = tower["layer"] % depth
        dead = [f"blocks.{index}." for index in range(block + 1, depth)] + ["attn_pool.", "fc_norm.", "head."]
        if block < depth - 1:
            dead.append("norm.")
        return [name for name, _ in model.named_parameters() if name.startswith(tuple(dead))]
    blocks = longest_list(model)
    depth = len(blocks)
    block = tower["layer"] % depth
    path = next(name for name, module in model.named_modules() if module is blocks)
    dead = [f"{path}.{index}." for index in range(block + 1, depth)]
    behind = ["head.", "pooler.", "embeddings.mask_token"]
    if block < depth - 1 or isinstance(model, CLIPVisionModel):  # CLIP's last hidden state is before its last norm
        behind += ["post_layernorm.", "layernorm."]
    return [
        name
        for name, _ in model.named_parameters()
        if name.startswith(tuple(dead)) or name.removeprefix("vision_model.").startswith(tuple(behind))
    ]
