"""The architecture: OpenVLA (action tokens).

train.py, pack.py, evaluate.py and the packages build the model from here.
Written by `vla build` 0.1.0 from pipeline.ts (plan c2952b3b). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime.modeling.composed import ComposedVLA, VLAConfig

CAMERAS = ("primary",)  # OpenVLA's only camera slot

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
        "name": "openvla/openvla-7b",
        "revision": "31f090d",
        "config": {
            "model_type": "llama",
            "hidden_size": 4_096,
            "intermediate_size": 11_008,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "pad_token_id": 32_000,
            "vocab_size": 32_064,
        },
        "tokenizer": "pretrained",
        "spare_tokens": 0,
        "action_vocabulary": 32_000,
        "stop_token": 2,
    },
    action={"decoder": "tokens", "chunk": 1, "bins": 256},
    mask="causal",  # OpenVLA is causal
    prompt="In: What action should the robot take to {instruction}?\nOut:",  # OpenVLA's prompt
    prompt_tokens=64,  # OpenVLA's prompts have 20 to 30 tokens
    prompt_lower=True,  # OpenVLA puts instructions into lower case
    prompt_trailing_token=29_871,  # The lone space that precedes the actions in training
    state_dim=0,
    action_dim=7,
    dtypes={"vision": "bf16", "projector": "bf16", "language": "bf16"},
)


def build_model() -> ComposedVLA:
    """The policy with uninitialised (or, on the meta device, unallocated) parameters."""
    return ComposedVLA(CONFIG)
