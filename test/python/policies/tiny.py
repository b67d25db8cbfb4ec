"""LeRobot's pi0, pi0.5, SmolVLA and X-VLA at a size of some hundred thousand parameters, built offline.

SmolVLA and X-VLA are small by their configs and a local directory. pi0 and pi0.5 have no option for their size, so `small` replaces
what their modules build from; it must be in place whenever such a policy is built, reloading included.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.pi0 import modeling_pi0
from lerobot.policies.pi0.configuration_pi0 import PI0Config
from lerobot.policies.pi05 import modeling_pi05
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from lerobot.policies.xvla.configuration_xvla import XVLAConfig
from lerobot.policies.xvla.modeling_xvla import XVLAPolicy
from small_pi import DEPTH, VOCABULARY, replacements
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,  # pyright: ignore[reportAttributeAccessIssue]
)

CHUNK, ACTION, STATE, TOKENS, IMAGE = 6, 4, 3, 8, 32
CAMERAS = ("front", "wrist")
TYPES = ("pi0", "pi05", "smolvla", "xvla")


def features(action: int = ACTION, state: int = STATE, image: int = IMAGE) -> tuple[dict[str, Any], dict[str, Any]]:
    """Input and output features."""
    inputs = {f"observation.images.{name}": PolicyFeature(FeatureType.VISUAL, (3, image, image)) for name in CAMERAS}
    inputs["observation.state"] = PolicyFeature(FeatureType.STATE, (state,))
    return inputs, {"action": PolicyFeature(FeatureType.ACTION, (action,))}


@contextlib.contextmanager
def small() -> Iterator[None]:
    """Within: pi0 and pi0.5 are built small."""
    with contextlib.ExitStack() as stack:
        for module in (modeling_pi0, modeling_pi05):
            stack.enter_context(patch.multiple(module, **replacements(module, DEPTH)))
        yield


# Local directories


def tokenizer(special: Mapping[str, str] | None = None) -> PreTrainedTokenizerFast:
    """Bytes, without merges, and `special` tokens by the names of their attributes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: index for index, letter in enumerate(["<pad>", "</s>", *alphabet])}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    plain.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    named: dict[str, Any] = {"extra_special_tokens": dict(special)} if special else {}
    return PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="</s>", **named)


def smolvlm_directory(directory: Path) -> Path:
    """A SmolVLM of the smallest size as a directory without weights: config, tokenizer, processor."""
    target = directory / "smolvlm"
    if target.exists():
        return target
    special = {
        "fake_image_token": "<fake_token_around_image>",
        "image_token": "<image>",
        "global_image_token": "<global-img>",
        "end_of_utterance_token": "<end_of_utterance>",
    }
    words = tokenizer(special)
    target.mkdir(parents=True)
    processor = SmolVLMProcessor(SmolVLMImageProcessor(), words, SmolVLMVideoProcessor(), image_seq_len=1)
    processor.save_pretrained(target)
    config = SmolVLMConfig(
        vision_config={  # pyright: ignore[reportCallIssue]
            "hidden_size": 24,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": IMAGE,
            "patch_size": 8,
        },
        text_config={  # pyright: ignore[reportCallIssue]
            "model_type": "llama",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "vocab_size": VOCABULARY,
            "pad_token_id": 0,
        },
        scale_factor=2,  # pyright: ignore[reportCallIssue]
        image_token_id=int(words.convert_tokens_to_ids("<image>")),  # pyright: ignore[reportArgumentType, reportCallIssue]
        pad_token_id=0,  # pyright: ignore[reportCallIssue]
    )
    config.save_pretrained(target)
    return target


# Policies


def config(kind: str, directory: Path, **options: Any) -> Any:
    """LeRobot's config of a small policy; `options` are further fields of it."""
    inputs, outputs = features()
    shared: dict[str, Any] = {
        "input_features": inputs,
        "output_features": outputs,
        "device": "cpu",
        "chunk_size": CHUNK,
        "n_action_steps": CHUNK,
        "push_to_hub": False,
    }
    if kind in ("pi0", "pi05"):
        own = {"max_state_dim": 5, "max_action_dim": 6, "image_resolution": (IMAGE, IMAGE), "num_inference_steps": 3}
        return (PI0Config if kind == "pi0" else PI05Config)(**(shared | own | options))
    if kind == "smolvla":
        own = {
            "vlm_model_name": str(smolvlm_directory(directory)),
            "load_vlm_weights": False,
            "num_vlm_layers": 4,
            "num_steps": 3,
            "max_state_dim": 5,
            "max_action_dim": 6,
            "resize_imgs_with_padding": (IMAGE, IMAGE),
            "freeze_vision_encoder": False,
            "train_expert_only": False,
        }
        return SmolVLAConfig(**(shared | own | options))
    own = {
        "florence_config": {
            "vision_config": {
                "depths": [1, 1],
                "patch_size": [7, 3],
                "patch_stride": [4, 2],
                "patch_padding": [3, 1],
                "patch_prenorm": [False, True],
                "embed_dim": [16, 24],
                "num_heads": [2, 2],
                "num_groups": [2, 2],
                "window_size": 4,
                "drop_path_rate": 0.0,
                "projection_dim": 32,
            },
            "text_config": {
                "model_type": "bart",
                "d_model": 32,
                "encoder_layers": 2,
                "decoder_layers": 1,
                "encoder_attention_heads": 2,
                "decoder_attention_heads": 2,
                "encoder_ffn_dim": 48,
                "decoder_ffn_dim": 48,
                "vocab_size": VOCABULARY,
                "max_position_embeddings": 128,
                "pad_token_id": 1,
                "dropout": 0.0,
            },
        },
        "hidden_size": 32,
        "depth": 3,
        "num_heads": 2,
        "mlp_ratio": 2.0,
        "num_domains": 4,
        "len_soft_prompts": 4,
        "dim_time": 8,
        "max_len_seq": 128,
        "action_mode": "auto",
        "max_action_dim": 6,
        "max_state_dim": 5,
        "num_denoising_steps": 3,
        "tokenizer_max_length": TOKENS,
    }
    return XVLAConfig(**(shared | own | options))


CLASSES: dict[str, type[PreTrainedPolicy]] = {
    "pi0": modeling_pi0.PI0Policy,
    "pi05": modeling_pi05.PI05Policy,
    "smolvla": SmolVLAPolicy,
    "xvla": XVLAPolicy,
}


def policy(kind: str, directory: Path, seed: int = 0, **options: Any) -> PreTrainedPolicy:
    """A small policy with the same weights on every call; none of them is zero everywhere, biases and adaptive norms included.

    X-VLA's dropout is off, since a twin on one process cannot draw the ranks' masks.
    """
    with small(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = CLASSES[kind](config(kind, directory, **options))
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    for module in made.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    made.train()
    return made
