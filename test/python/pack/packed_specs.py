"""Small policies of the families with a tokenizer or two streams, as declarations."""

from pathlib import Path
from typing import Any

import draccus
import tiny
from lerobot.configs.policies import PreTrainedConfig
from vla_runtime.policies.spec import PolicySpec

_ELSEWHERE = {
    "type", "input_features", "output_features", "normalization_mapping", "device", "push_to_hub", "use_peft"
}  # fmt: skip


def declared(kind: str, folder: Path, **options: Any) -> PolicySpec:
    """A policy of `tiny` with two cameras; pi0, pi0.5 and X-VLA have a declared tokenizer for a hub id that is not at hand.

    `options` are further fields of LeRobot's configuration.
    """
    config = draccus.encode(tiny.config(kind, folder, **options), PreTrainedConfig)
    tokenizer = folder / "words"
    tiny.tokenizer().save_pretrained(tokenizer)
    modes = {key: getattr(value, "value", value) for key, value in config["normalization_mapping"].items()}
    return PolicySpec(
        type=kind,
        cameras=tiny.CAMERAS,
        image_sizes={camera: (tiny.IMAGE, tiny.IMAGE) for camera in tiny.CAMERAS},
        state_dim=tiny.STATE,
        action_dim=tiny.ACTION,
        config={name: value for name, value in config.items() if name not in _ELSEWHERE and value is not None},
        normalization=modes,  # type: ignore[arg-type]
        tokenizer=None if kind == "smolvla" else str(tokenizer),
    )
