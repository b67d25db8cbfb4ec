"""OpenVLA as a composed VLA: its HF directory's config to ours and back. Weights need no translation, names and shapes are equal.

Source: openvla/openvla, prismatic/extern/hf (configuration_prismatic.py, modeling_prismatic.py) and
vla-scripts/extern/convert_openvla_weights_to_hf.py; for the regression variant moojink/openvla-oft.
"""

import copy
from collections.abc import Mapping
from typing import Any

from .composed import VLAConfig

PROMPT = "In: What action should the robot take to {instruction}?\nOut:"
TRAILING_TOKEN = 29871
"""Llama 2's lone space: it precedes the actions in training, and `predict_action` appends it where the prompt does not end in it."""
STOP_TOKEN = 2
"""Llama 2's `</s>`."""
CAMERA = "primary"

PARAMETERS = 7_541_237_184
"""Of openvla-7b."""
DEAD_PARAMETERS = 43_080_480
"""Of those: the towers' last blocks, their norms and SigLIP's pooling head."""

# timm ids -> vision_backbone_id of Prismatic's registry
_BACKBONES = {
    ("vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"): "dinosiglip-vit-so-224px",
    ("vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_384"): "dinosiglip-vit-so-384px",
    ("vit_so400m_patch14_siglip_224",): "siglip-vit-so400m",
    ("vit_so400m_patch14_siglip_384",): "siglip-vit-so400m-384px",
    ("vit_large_patch14_reg4_dinov2.lvd142m",): "dinov2-vit-l",
}
_IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
_HALF = ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
_PROJECTORS = {
    "linear": {"kind": "linear"},
    "gelu-mlp": {"kind": "mlp", "layers": 2},
    "fused-gelu-mlp": {"kind": "fusedMlp"},
}


def openvla_config(
    published: Mapping[str, Any],
    preprocessor: Mapping[str, Any] | None = None,
    *,
    action_dim: int = 7,
    chunk: int = 1,
    regression: Mapping[str, Any] | None = None,
    state_dim: int = 0,
    prompt_tokens: int = 64,
) -> VLAConfig:
    """The architecture that an OpenVLA-layout `config.json` describes.

    Args:
        published: its `config.json`.
        preprocessor: its `preprocessor_config.json`; mean and standard deviation of each tower's pixels. Without it ImageNet's for
            DINOv2 and 0.5 for SigLIP and CLIP.
        action_dim: width of an action.
        chunk: actions per prediction.
        regression: `{"hidden": ..., "blocks": ...}` for OpenVLA-OFT's head instead of tokens; the mask is then `full`.
        state_dim: proprioception, 0 for none.
        prompt_tokens: padded length of the prompt.
    """
    text = copy.deepcopy(dict(published["text_config"]))
    for key in ("torch_dtype", "dtype"):
        text.pop(key, None)
    padding = published.get("pad_to_multiple_of", 64)
    towers = []
    for index, name in enumerate(published["timm_model_ids"]):
        mean, std = _IMAGENET if "dinov2" in name or "augreg" in name else _HALF
        if preprocessor is not None:
            mean, std = preprocessor["means"][index], preprocessor["stds"][index]
        activation = published["timm_override_act_layers"][index]
        towers.append(
            {
                "source": "timm",
                "name": name,
                "image_size": published["image_sizes"][index],
                "output": "tokens",
                "layer": -2,
                "norm": "native",
                "mean": list(mean),
                "std": list(std),
                "options": {} if activation is None else {"act_layer": activation},
            }
        )
    arch = published["arch_specifier"].removeprefix("no-align+")
    if arch not in _PROJECTORS:
        raise ValueError(f"Unknown arch_specifier {published['arch_specifier']!r} in config.json.")
    action: dict[str, Any] = {"decoder": "tokens", "chunk": chunk, "bins": published.get("n_action_bins", 256)}
    if regression is not None:
        action = {"decoder": "regression", "chunk": chunk, "queries": "zero", "slots": action_dim, **regression}
    return VLAConfig(
        cameras=(CAMERA,),
        vision=towers,
        fuse="channels",
        projector=_PROJECTORS[arch],
        language={
            "config": {"model_type": "llama", **text},
            "tokenizer": "pretrained",
            "spare_tokens": 0,
            "action_vocabulary": text.get("vocab_size", 32_064) - padding,
            "stop_token": STOP_TOKEN,
        },
        action=action,
        mask="causal" if regression is None else "full",
        prompt=PROMPT,
        prompt_tokens=prompt_tokens,
        prompt_lower=True,
        prompt_trailing_token=TRAILING_TOKEN,
        state_dim=state_dim,
        action_dim=action_dim,
    )


def openvla_json(config: VLAConfig, norm_stats: Mapping[str, Any], dtype: str = "bfloat16") -> dict[str, Any]:
    """The `config.json` of an OpenVLA-layout directory, without `auto_map` (which names the code that travels with it).

    Args:
        config: of an OpenVLA model.
        norm_stats: dataset name -> `{"action": {mean, std, max, min, q01, q99, mask}, "proprio": {...}, ...}`.
        dtype: torch's name of the weights' dtype.

    Raises:
        ValueError: the architecture has no place in this layout.
    """
    names = [tower["name"] for tower in config.vision]
    if len(names) > 2 or config.fuse != "channels" or any(tower["source"] != "timm" for tower in config.vision):
        raise ValueError("OpenVLA's layout holds one timm tower, or two fused on channels.")
    kinds = {"linear": "linear", "mlp": "gelu-mlp", "fusedMlp": "fused-gelu-mlp"}
    kind = config.projector["kind"]
    if kind not in kinds or (kind == "mlp" and config.projector["layers"] != 2):
        raise ValueError(f"OpenVLA's layout has no projector {config.projector}.")
    text = dict(config.language["config"])
    rows = text.get("vocab_size", 32_064)
    padding = rows - config.language.get("action_vocabulary", rows)
    return {
        "model_type": "openvla",
        "architectures": ["OpenVLAForActionPrediction"],
        "vision_backbone_id": _BACKBONES.get(tuple(names), "+".join(names)),
        "llm_backbone_id": "llama2-7b-pure",
        "arch_specifier": "no-align+" + kinds[kind],
        "use_fused_vision_backbone": len(names) == 2,
        "timm_model_ids": names,
        "timm_override_act_layers": [(tower.get("options") or {}).get("act_layer") for tower in config.vision],
        "image_sizes": [tower["image_size"] for tower in config.vision],
        "image_resize_strategy": "resize-naive",
        "hf_llm_id": "meta-llama/Llama-2-7b-hf",
        "llm_max_length": text.get("max_position_embeddings", 2048),
        "pad_token_id": text.get("pad_token_id", 32_000),
        "pad_to_multiple_of": padding,
        "output_projector_states": False,
        "n_action_bins": config.action.get("bins", 256),
        "norm_stats": copy.deepcopy(dict(norm_stats)),
        "text_config": {**text, "torch_dtype": dtype},
        "torch_dtype": dtype,
        "use_cache": True,
    }


def preprocessor_json(config: VLAConfig) -> dict[str, Any]:
    """The `preprocessor_config.json` of an OpenVLA-layout directory."""
    sizes = [tower["image_size"] for tower in config.vision]
    means = [tower["mean"] for tower in config.vision]
    stds = [tower["std"] for tower in config.vision]
    count = len(config.vision)
    return {
        "image_processor_type": "PrismaticImageProcessor",
        "processor_class": "PrismaticProcessor",
        "image_resize_strategy": "resize-naive",
        "use_fused_vision_backbone": count == 2,
        "input_sizes": [[3, size, size] for size in sizes],
        "interpolations": ["bicubic"] * count,
        "means": means,
        "stds": stds,
        "tvf_crop_params": [{"output_size": [size, size]} for size in sizes],
        "tvf_do_letterbox": False,
        "tvf_letterbox_fill": None,
        "tvf_normalize_params": [
            {"inplace": False, "mean": mean, "std": std} for mean, std in zip(means, stds, strict=True)
        ],
        "tvf_resize_params": [
            {"antialias": True, "interpolation": 3, "max_size": None, "size": [size, size]} for size in sizes
        ],
    }


def published_7b() -> dict[str, Any]:
    """The fields of openvla-7b's `config.json` that decide its architecture."""
    names = ["vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"]
    text = {"model_type": "llama", "pad_token_id": 32_000, "vocab_size": 32_064}
    return {
        "model_type": "openvla",
        "arch_specifier": "no-align+fused-gelu-mlp",
        "use_fused_vision_backbone": True,
        "timm_model_ids": names,
        "timm_override_act_layers": [None, None],
        "image_sizes": [224, 224],
        "n_action_bins": 256,
        "pad_to_multiple_of": 64,
        "text_config": text,
    }
