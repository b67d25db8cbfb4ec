"""A composed VLA behind LeRobot's policy interface. Normalisation is the processors' business."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

from ..modeling.batch import Batch
from ..modeling.composed import ComposedVLA, VLAConfig
from ..modeling.observe import observation_batch, prompt_tokenizer
from .configuration_vla_composed import VLAComposedConfig


class VLAComposedPolicy(PreTrainedPolicy):
    """The policy. Its state-dict keys are the trainer's own."""

    config_class = VLAComposedConfig  # type: ignore[assignment]
    name = "vla_composed"  # type: ignore[assignment]
    vla: ComposedVLA

    def __init__(self, config: VLAComposedConfig, **kwargs: Any) -> None:
        super().__init__(config)
        config.validate_features()
        self.config: VLAComposedConfig = config
        vla = ComposedVLA(VLAConfig.from_dict(config.vla))
        for name, child in vla.named_children():
            self.add_module(name, child)
        object.__setattr__(self, "vla", vla)  # its children are registered here; a second name would double every key
        tokenizer = Path(config.pretrained_path) / "tokenizer" if config.pretrained_path is not None else None
        self._tokenizer = prompt_tokenizer(
            vla.config, tokenizer if tokenizer is not None and tokenizer.is_dir() else None
        )
        self._queue: deque[Tensor] = deque()

    def get_optim_params(self) -> Iterator[nn.Parameter]:  # type: ignore[override]
        """Everything trains."""
        return self.parameters()

    def reset(self) -> None:
        """Forgets what is left of the last chunk."""
        self._queue.clear()

    def forward(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, float]]:
        """Mean loss per valid element of a processed batch with `action` [B, C, A] and `action_is_pad` [B, C]."""
        observed = self._observe(batch, None)
        observed.actions = batch["action"]
        observed.valid = ~batch["action_is_pad"]
        if self.vla.config.action["decoder"] == "flowMatching":
            alpha, beta = self.vla.config.action.get("time_alpha", 1.5), self.vla.config.action.get("time_beta", 1.0)
            observed.time = (
                torch.distributions.Beta(alpha, beta).sample((observed.size,)).to(observed.prompt.device) * 0.999
                + 0.001
            )
        loss = self.vla(observed).sum() / self.vla.valid_count(observed)
        return loss, {"loss": loss.item()}

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Any], noise: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Normalised actions [B, C, A] of a processed batch."""
        self.eval()
        return self.vla.predict(self._observe(batch, noise))

    @torch.no_grad()
    def select_action(self, batch: dict[str, Any], noise: Tensor | None = None, **kwargs: Any) -> Tensor:
        """The next normalised action [B, A]; asks the model anew when `n_action_steps` are used up."""
        if not self._queue:
            self._queue.extend(self.predict_action_chunk(batch, noise)[:, : self.config.n_action_steps].unbind(dim=1))
        return self._queue.popleft()

    def _observe(self, batch: dict[str, Any], noise: Tensor | None) -> Batch:
        images = {camera: _uint8(batch[feature]) for camera, feature in self.config.cameras.items()}
        state = batch[self.config.state] if self.config.state is not None else None
        if state is not None and self.config.clip_state:
            state = state.clamp(-1, 1)
        size = next(iter(images.values())).shape[0]
        task = batch.get("task")
        if task is None:
            raise ValueError("the batch has no 'task': this policy reads an instruction.")
        tasks = [task] * size if isinstance(task, str) else list(task)
        device = next(self.parameters()).device
        return observation_batch(
            self.vla.config, self._tokenizer, images, tasks, state, crop=self.config.crop, noise=noise, device=device
        )


def _uint8(images: Tensor) -> Tensor:
    """LeRobot's float pictures in [0, 1] back to the bytes that they were made of."""
    return images if images.dtype == torch.uint8 else (images * 255).round().clamp(0, 255).to(torch.uint8)
