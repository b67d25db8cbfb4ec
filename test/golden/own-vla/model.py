"""The architecture: a composed VLA (vit_large_patch14_reg4_dinov2.lvd142m + vit_so400m_patch14_siglip_224,
Qwen/Qwen2.5-0.5B, flow matching).

train.py, pack.py, evaluate.py and the packages build the model from here.
Written by `vla build` 0.1.0 from pipeline.ts (plan 84804671). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

CAMERAS = ("front", "wrist")

CONFIG = VLAConfig(
    cameras=CAMERAS,
    vision=[
        {
            "source": "timm",
            "name": "vit_large_patch14_reg4_dinov2.lvd142m",
            "image_size": 224,
            "output": "tokens",
            "layer": -2,
            "norm": "native",
            "mean": [0.485, 0.456, 0.406],
            "std": [0.229, 0.224, 0.225],
            "options": {},
        },
        {
            "source": "timm",
            "name": "vit_so400m_patch14_siglip_224",
            "image_size": 224,
            "output": "tokens",
            "layer": -2,
            "norm": "native",
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
            "options": {},
        },
    ],
    fuse="channels",
    projector={"kind": "fusedMlp"},
    language={
        "name": "Qwen/Qwen2.5-0.5B",
        "revision": "060db6499f32faf8b98477b0a26969ef7d8b9987",
        "config": {
            "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"],
            "attention_dropout": 0,
            "bos_token_id": 151_643,
            "eos_token_id": 151_643,
            "hidden_act": "silu",
            "hidden_size": 896,
            "initializer_range": 0.02,
            "intermediate_size": 4_864,
            "max_position_embeddings": 32_768,
            "max_window_layers": 24,
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000,
            "sliding_window": 32_768,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": 151_936,
        },
        "tokenizer": "pretrained",
        "spare_tokens": 0,
    },
    action={
        "decoder": "flowMatching",
        "chunk": 16,
        "attention": "cross",
        "hidden": 512,
        "layers": 8,
        "heads": 8,
        "steps": 10,
        "time_alpha": 1.5,
        "time_beta": 1.0,
    },
    mask="prefix",
    prompt="What should the robot do to {instruction}?",
    prompt_tokens=64,  # Twice the length of common instructions
    state_dim=7,
    action_dim=7,
    dtypes={"vision": "bf16", "projector": "bf16", "language": "bf16", "action": "fp32"},
)


def build_model() -> ComposedVLA:
    """The policy with uninitialised (or, on the meta device, unallocated) parameters."""
    return ComposedVLA(CONFIG)
