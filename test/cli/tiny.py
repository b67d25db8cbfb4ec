"""What the tests of `vla inspect` need offline: a tiny CLIP, a tiny InternVL, a plugin that fails, and demonstrations without meaning.

.venv/bin/python test/cli/tiny.py FOLDER
"""

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lerobot.datasets import LeRobotDataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import CLIPConfig, CLIPModel, InternVLConfig, InternVLModel, PreTrainedTokenizerFast

# Their fields are no parameters for a type checker.
_CLIP_CONFIG, _INTERNVL_CONFIG = cast(Any, CLIPConfig), cast(Any, InternVLConfig)
ROWS = 300  # of the embeddings: bytes and a few special tokens


def tokenizer(special: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """Bytes, without merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain = Tokenizer(models.BPE({letter: index for index, letter in enumerate(["<pad>", "</s>", *alphabet])}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    plain.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    made = PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="</s>")
    made.add_special_tokens({"additional_special_tokens": list(special)})  # pyright: ignore[reportArgumentType]
    return made


def clip(folder: Path) -> None:
    """For multi_task_dit."""
    shared = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {"vocab_size": ROWS, "max_position_embeddings": 77, "eos_token_id": 1, "bos_token_id": 0, "pad_token_id": 0}
    vision = {"image_size": 32, "patch_size": 8}
    config = _CLIP_CONFIG(text_config=shared | text, vision_config=shared | vision, projection_dim=16)
    CLIPModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def internvl(folder: Path) -> None:
    """For evo1."""
    shared = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {"model_type": "qwen2", "num_key_value_heads": 2, "vocab_size": ROWS, "max_position_embeddings": 256}
    words = tokenizer(("<img>", "</img>", "<IMG_CONTEXT>"))
    config = _INTERNVL_CONFIG(
        vision_config=shared | {"image_size": [32, 32], "patch_size": [8, 8]},
        text_config=shared | text,
        image_token_id=int(words.convert_tokens_to_ids("<IMG_CONTEXT>")),  # pyright: ignore[reportArgumentType]
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    InternVLModel(config).save_pretrained(folder)
    words.save_pretrained(folder)


def demonstrations(root: Path) -> None:
    """Two episodes of noise, 64 x 64, with a state and an action of four."""
    vector = {"dtype": "float32", "shape": (4,), "names": None}
    image = {"dtype": "image", "shape": (64, 64, 3), "names": ["height", "width", "channels"]}
    features = {"observation.images.front": image, "observation.state": vector, "action": vector}
    dataset = LeRobotDataset.create("local/noise", fps=10, features=features, root=root, use_videos=False)
    random = np.random.default_rng(0)
    for _ in range(2):
        for _ in range(12):
            frame = {
                "observation.images.front": random.integers(0, 256, (64, 64, 3), dtype=np.uint8),
                "observation.state": random.standard_normal(4).astype(np.float32),
                "action": random.standard_normal(4).astype(np.float32),
            }
            dataset.add_frame({**frame, "task": "move"})
        dataset.save_episode()
    dataset.finalize()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    torch.manual_seed(0)
    clip(target / "clip")
    internvl(target / "internvl")
    demonstrations(target / "data")
    (target / "lerobot_policy_broken.py").write_text("import a_package_that_nobody_has\n")
