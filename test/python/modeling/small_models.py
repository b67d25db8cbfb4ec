"""Small composed VLAs and batches for the tests of the model."""

from typing import Any

import torch
from vla_runtime.modeling.batch import Batch
from vla_runtime.modeling.composed import ComposedVLA, VLAConfig
from vla_runtime.modeling.tokenization import PromptTokenizer, bytes_tokenizer
from vla_runtime.partition import Module, Partition
from vla_runtime.weights import materialise

ACTIONS: dict[str, dict[str, Any]] = {
    "regression": {"decoder": "regression", "chunk": 3, "hidden": 24, "blocks": 1},
    "regressionZero": {"decoder": "regression", "chunk": 3, "hidden": 24, "blocks": 1, "queries": "zero", "slots": 4},
    "flowMatching": {"decoder": "flowMatching", "chunk": 3, "hidden": 24, "layers": 2, "heads": 2, "steps": 4},
    "joint": {
        "decoder": "flowMatching",
        "attention": "joint",
        "chunk": 3,
        "hidden": 26,
        "mlp": 40,
        "steps": 4,
    },
    "tokens": {"decoder": "tokens", "chunk": 2, "bins": 16},
}
MASKS = {
    "regression": "full",
    "regressionZero": "full",
    "flowMatching": "prefix",
    "joint": "prefix",
    "tokens": "causal",
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 320,
}


def timm_tower(name: str = "test_vit", **changes: Any) -> dict[str, Any]:
    """A token tower of 2 x 2 patches."""
    return {
        "source": "timm",
        "name": name,
        "image_size": 32,
        "output": "tokens",
        "layer": -2,
        "norm": "native",
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.25, 0.3],
        "options": {},
        **changes,
    }


def map_tower(name: str = "test_convnext", **changes: Any) -> dict[str, Any]:
    """A convolutional tower that gives its first stage's map of 8 x 8."""
    return timm_tower(name, output="map", layer=0, **changes)


def config(decoder: str = "regression", **changes: Any) -> VLAConfig:
    """Two cameras, an mlp projector, two Llama layers, proprioception."""
    values: dict[str, Any] = {
        "cameras": ("front", "wrist"),
        "vision": [timm_tower()],
        "projector": {"kind": "mlp", "layers": 2},
        "language": {"config": LLAMA, "tokenizer": "bytes", "spare_tokens": 16 if decoder == "tokens" else 0},
        "action": ACTIONS[decoder],
        "mask": MASKS[decoder],
        "prompt": "do {instruction}?",
        "prompt_tokens": 20,
        "state_dim": 3,
        "action_dim": 4,
    }
    return VLAConfig(**{**values, **changes})


def build(of: VLAConfig, dtype: torch.dtype = torch.float64) -> ComposedVLA:
    """The model with values from a fixed seed, all of them non-trivial; without the libraries' own drawing, which is slow."""
    with torch.device("meta"):
        model = ComposedVLA(of).to(dtype)
    materialise(model, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = parameter.ndim == 1 and not name.endswith("bias")
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((1.0 if scale else 0.0) + 0.1 * noise)
    return model


def batch(of: VLAConfig, *, size: int = 3, dtype: torch.dtype = torch.float64, length: int | None = None) -> Batch:
    """Samples with instructions of different lengths; the second runs past its episode's end after one action."""
    generator = torch.Generator().manual_seed(1)
    tokenizer = PromptTokenizer(bytes_tokenizer(), of.prompt, length or of.prompt_tokens)
    prompt, mask = tokenizer(["reach", "close it", "x"][:size])
    valid = torch.ones(size, of.chunk, dtype=torch.bool)
    if size > 1:
        valid[1, 1:] = False

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return Batch(
        images={
            c: torch.randint(0, 256, (size, 3, 32, 32), generator=generator, dtype=torch.uint8) for c in of.cameras
        },
        prompt=prompt,
        prompt_mask=mask,
        state=noise(size, of.state_dim) if of.state_dim else None,
        actions=noise(size, of.chunk, of.action_dim).tanh(),
        valid=valid,
        noise=noise(size, of.chunk, of.action_dim),
        time=torch.linspace(0.1, 0.9, size, dtype=dtype),
    )


def modules(model: ComposedVLA) -> list[Module]:
    """The modules of the declaration."""
    found = [
        Module("vision", parameters=["vision_backbone.*"], lr=1e-3),
        Module(
            "projector", parameters=["projector.*", *(["state_projector.*"] if model.state_projector else [])], lr=1e-3
        ),
        Module("language", parameters=["language_model.*"], lr=1e-3),
    ]
    return found if model.action_head is None else [*found, Module("action", parameters=["action_head.*"], lr=1e-3)]


def partition(model: ComposedVLA) -> Partition:
    """The partition of a model into the modules of the declaration."""
    return Partition(model, modules(model))
