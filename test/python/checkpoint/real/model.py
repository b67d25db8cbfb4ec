"""The architecture: a composed VLA (test_vit, llama, flow matching)."""

from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

CONFIG = VLAConfig(
    cameras=("front",),
    vision=[
        {
            "source": "timm",
            "name": "test_vit",
            "image_size": 32,
            "output": "tokens",
            "layer": -1,
            "norm": "native",
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
            "options": {},
        }
    ],
    projector={"kind": "mlp", "layers": 2},
    language={
        "config": {
            "model_type": "llama",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "vocab_size": 320,
        },
        "tokenizer": "bytes",
        "spare_tokens": 0,
    },
    action={
        "decoder": "flowMatching",
        "chunk": 3,
        "hidden": 24,
        "layers": 1,
        "heads": 2,
        "steps": 2,
        "time_alpha": 1.5,
        "time_beta": 1.0,
    },
    mask="prefix",
    prompt="{instruction}",
    prompt_tokens=24,
    state_dim=2,
    action_dim=3,
    dtypes={"vision": "fp32", "projector": "fp32", "language": "bf16", "action": "fp32"},
)


def build_model() -> ComposedVLA:
    """The policy with uninitialised (or, on the meta device, unallocated) parameters."""
    return ComposedVLA(CONFIG)
