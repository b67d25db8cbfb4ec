"""Its model: mean colours and the state as tokens of a small encoder, which the policy enters from two sides."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn
from torch.nn import functional

from .configuration_padded import PaddedConfig


class Block(nn.Module):
    """A residual MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, D] -> [B, T, D]."""
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Encoder(nn.Module):
    """Blocks, and an embedding that is called by others alone, as a language model's often is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [B, T, D] -> [B, T, D]."""
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens


class PaddedPolicy(PreTrainedPolicy):
    """LeRobot's interface."""

    config_class = PaddedConfig  # type: ignore[assignment]
    name = "padded"  # type: ignore[assignment]

    def __init__(self, config: PaddedConfig, **_: Any) -> None:
        super().__init__(config)
        self.config: PaddedConfig = config
        state: Any = config.robot_state_feature
        self.encoder = Encoder(config.hidden)
        self.state = nn.Linear(state.shape[0], config.hidden)
        self.head = nn.Linear(config.hidden, config.chunk_size * config.width)
        self.reset()

    def get_optim_params(self) -> Any:
        """All of them."""
        return self.parameters()

    def reset(self) -> None:
        """Begins an episode."""
        self._queue: deque[Tensor] = deque(maxlen=self.config.n_action_steps)

    def _actions(self, batch: Mapping[str, Tensor]) -> Tensor:
        colours = torch.stack([batch[name].mean((-2, -1)) for name in self.config.image_features], 1)
        tokens = torch.cat([self.encoder.embed(colours), self.state(batch["observation.state"])[:, None]], 1)
        features = self.encoder(tokens).mean(1)
        return self.head(features).unflatten(-1, (self.config.chunk_size, self.config.width))

    def forward(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
        """The mean over all of the batch's actions, which are padded to the model's width."""
        loss = functional.mse_loss(self._actions(batch), batch["action"])
        return loss, {"loss": float(loss)}

    @torch.no_grad()
    def predict_action_chunk(self, batch: Mapping[str, Tensor], **_: Any) -> Tensor:
        """[B, C, width]."""
        return self._actions(batch)

    @torch.no_grad()
    def select_action(self, batch: Mapping[str, Tensor], **_: Any) -> Tensor:
        """[B, width]."""
        if not self._queue:
            self._queue.extend(self.predict_action_chunk(batch)[:, : self.config.n_action_steps].unbind(1))
        return self._queue.popleft()
