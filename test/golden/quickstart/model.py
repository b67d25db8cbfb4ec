"""The architecture: a composed VLA (test_convnext, llama, L1 regression).

train.py, pack.py, evaluate.py and the packages build the model from here.
Written by `vla build` 0.1.0 from pipeline.ts (plan 4644000a). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

CAMERAS = ("front",)

CONFIG = VLAConfig(
    cameras=CAMERAS,
    vision=[
        {
            "source": "timm",
            "name": "test_convnext",
            "image_size": 64,
            "output": "map",
            "layer": 0,
            "norm": "native",
            "mean": [0.5, 0.5, 0.5],
            "std": [0.5, 0.5, 0.5],
            "options": {},
        }
    ],
    projector={"kind": "spatialSoftArgmax", "points": 32},
    language={
        "config": {
            "model_type": "llama",
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "vocab_size": 320,
        },
        "tokenizer": "bytes",
        "spare_tokens": 0,
    },
    action={"decoder": "regression", "chunk": 8, "hidden": 128, "blocks": 2, "queries": "learnable", "slots": 1},
    mask="full",  # Parallel decoding: every token sees every token
    prompt="{instruction}",
    prompt_tokens=32,
    state_dim=4,
    action_dim=4,
    dtypes={"vision": "fp32", "projector": "fp32", "language": "fp32", "action": "fp32"},
)


def build_model() -> ComposedVLA:
    """The policy with uninitialised (or, on the meta device, unallocated) parameters."""
    return ComposedVLA(CONFIG)
