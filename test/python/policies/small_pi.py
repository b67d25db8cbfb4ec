"""What pi0's and pi0.5's modules build from, replaced: the two have no option for their size.

Imports nothing of LeRobot, so that a process can take it in before LeRobot is there (small/sitecustomize.py).
"""

import os
from types import ModuleType
from typing import Any

DEPTH = int(os.environ.get("SMALL_PI_DEPTH", "3"))  # layers of each transformer
VOCABULARY = 300


def replacements(module: ModuleType, depth: int) -> dict[str, Any]:
    """What to put in the place of names of `lerobot.policies.pi0.modeling_pi0` or of pi0.5's; `depth` layers in each transformer."""
    made: Any = module
    multimodal, causal, sizes = (
        made.PaliGemmaForConditionalGenerationWithPiGemma,
        made.PiGemmaForCausalLM,
        made.GemmaConfig,
    )

    def gemma(variant: str) -> Any:
        width, inner = (32, 48) if variant == "gemma_2b" else (16, 32)
        return sizes(width=width, depth=depth, mlp_dim=inner, num_heads=8, num_kv_heads=1, head_dim=8)

    def build_multimodal(config: Any) -> Any:
        config.text_config.vocab_size = config._vocab_size = config.image_token_index = VOCABULARY
        vision = config.vision_config
        vision.hidden_size, vision.intermediate_size, vision.projection_dim = 24, 32, 32
        vision.num_hidden_layers, vision.num_attention_heads, vision.patch_size = 2, 2, 16
        return multimodal(config)

    def build_causal(config: Any) -> Any:
        config.vocab_size = VOCABULARY
        return causal(config)

    return {
        "get_gemma_config": gemma,
        "PaliGemmaForConditionalGenerationWithPiGemma": build_multimodal,
        "PiGemmaForCausalLM": build_causal,
    }
