"""The policy as transformers loads it: `AutoModel.from_pretrained(directory, trust_remote_code=True)`.

This file and its neighbours travel with the weights; nothing else is needed but torch, transformers, timm and numpy.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedModel

from .batch import Batch
from .composed import ComposedVLA, VLAConfig
from .construct import parameter_dtype
from .decoders import ActionBins
from .expert import JointExpert
from .images import evaluation_view
from .joint import hand_on
from .language import LanguageModel
from .normalize import Normalizer, normalizer
from .observe import observation_batch, prompt_tokenizer
from .projectors import build_projector
from .tokenization import PromptTokenizer
from .vision import VisionBackbone

# transformers copies a remote model's file and the files that it imports itself, not what those import in turn. So this file names
# every neighbour, also those whose names it does not use.
NEIGHBOURS = (
    ActionBins,
    JointExpert,
    LanguageModel,
    VisionBackbone,
    build_projector,
    evaluation_view,
    hand_on,
    parameter_dtype,
)


class VLAPretrainedConfig(PretrainedConfig):
    """config.json of a package.

    Attributes:
        vla: the architecture (`VLAConfig`).
        normalization: dataset -> "state" / "action" -> the arguments of `normalizer`, statistics included.
        crop: share of the picture's area that training's random crop kept, or None; predictions take the centre crop of it.
    """

    model_type = "vla_composed"

    def __init__(
        self,
        vla: dict[str, Any] | None = None,
        normalization: dict[str, Any] | None = None,
        crop: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.vla = vla or {}
        self.normalization = normalization or {}
        self.crop = crop
        super().__init__(**kwargs)


class VLAForActionPrediction(PreTrainedModel):
    """A composed VLA with its normalisation and tokenizer. The state-dict keys are the trainer's own."""

    config_class = VLAPretrainedConfig
    base_model_prefix = ""
    _supports_sdpa = True
    policy: ComposedVLA

    def __init__(self, config: VLAPretrainedConfig) -> None:
        super().__init__(config)
        policy = ComposedVLA(VLAConfig.from_dict(config.vla))
        for name, child in policy.named_children():
            self.add_module(name, child)
        object.__setattr__(
            self, "policy", policy
        )  # its children are registered here; a second name would double every key
        self._tokenizer: PromptTokenizer | None = None
        self._normalizers: dict[str, dict[str, Normalizer]] = {
            dataset: {role: normalizer(**recipe) for role, recipe in roles.items()}
            for dataset, roles in config.normalization.items()
        }
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Nothing: a package holds every weight, and loading fails where one is missing."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """As transformers does, but a missing, unexpected or misshapen key is an error instead of a warning."""
        wants_info = kwargs.pop("output_loading_info", False)
        loaded: Any = super().from_pretrained(pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs)
        model, info = loaded
        wrong = {
            kind: sorted(map(str, info[kind]))
            for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
            if info.get(kind)
        }
        if wrong:
            raise ValueError(f"{pretrained_model_name_or_path} does not hold exactly this model's weights: {wrong}")
        model.policy.reset_buffers()
        model.eval()
        return (model, info) if wants_info else model

    def forward(self, batch: Batch) -> torch.Tensor:
        """Losses per element of a `Batch` (see `ComposedVLA.forward`)."""
        return self.policy(batch)

    @torch.no_grad()
    def predict_action(
        self,
        images: Mapping[str, np.ndarray],
        instruction: str,
        state: np.ndarray | None = None,
        *,
        dataset: str | None = None,
        noise: np.ndarray | None = None,
    ) -> np.ndarray:
        """The next chunk of actions for one observation.

        Args:
            images: camera -> uint8 [H, W, 3], RGB, at the size the camera gives.
            instruction: what to do, in words; the model's own prompt is put around it.
            state: proprioception in the robot's own units [S], for a model that reads it.
            dataset: whose statistics to use; may be left out where the package has only one.
            noise: [C, A] that flow matching starts from; drawn from torch's generator where it is left out.

        Returns:
            float32 [C, A], in the robot's own units, first action first.

        Raises:
            ValueError: a camera or the state is missing, the dataset is not known, or the instruction is too long.
        """
        normalizers = self._normalizers[self._dataset(dataset)]
        if self._tokenizer is None:
            self._tokenizer = prompt_tokenizer(self.policy.config, self.config._name_or_path)
        normalised = None
        if state is not None and self.policy.config.state_dim:
            normalised = normalizers["state"](torch.as_tensor(np.asarray(state, dtype=np.float32)))[None]
        batch = observation_batch(
            self.policy.config,
            self._tokenizer,
            {
                camera: torch.as_tensor(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
                for camera, image in images.items()
            },
            [instruction],
            normalised,
            crop=self.config.crop,
            noise=None if noise is None else torch.as_tensor(noise)[None],
            device=next(self.parameters()).device,
        )
        actions = normalizers["action"].inverse(self.policy.predict(batch)[0].cpu())
        return actions.float().numpy()

    def _dataset(self, name: str | None) -> str:
        if name is None and len(self._normalizers) == 1:
            return next(iter(self._normalizers))
        if name not in self._normalizers:
            raise ValueError(f"whose statistics? dataset={name!r} is not one of {sorted(self._normalizers)}.")
        return name
