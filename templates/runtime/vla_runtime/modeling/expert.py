"""The action expert of joint attention (pi0): flow matching by a transformer that sees the trunk's keys and values at every depth."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig

from .construct import real_buffers
from .decoders import time_embedding
from .joint import KeyValue, expert_config, take_on
from .language import additive


def suffix_visible(valid: Tensor, state: bool) -> Tensor:
    """Who may see whom among the expert's tokens, `[state] [actions]`: the blocks of pi0.

    Args:
        valid: bool [B, C], false at padded actions.
        state: whether there is a state token.

    Returns:
        bool [B, S, S], S = C or C + 1: row (query) may see column (key). The state sees itself alone; an action sees the state and every
        action that is not padded; a padded action, whose output counts nowhere, is seen by none but itself.
    """
    among = valid[:, None, :] | torch.eye(valid.shape[1], dtype=torch.bool, device=valid.device)
    if not state:
        return among
    allowed = F.pad(among, (1, 0, 1, 0), value=False)
    allowed[:, :, 0] = True
    return allowed


class JointExpert(nn.Module):
    """The velocity of noisy actions, from a transformer with the trunk's layers and heads and widths of its own.

    Its tokens are the state and one per action; time enters with the actions, as in pi0.

    Args:
        trunk: configuration of the language model.
        action_dim: width of an action (A).
        state_dim: width of the state (S); 0 for none.
        hidden: width of this transformer, even.
        mlp: inner width of its MLPs.
        attention: sdpa or eager.
    """

    def __init__(
        self,
        trunk: PretrainedConfig,
        *,
        action_dim: int,
        state_dim: int,
        hidden: int,
        mlp: int,
        attention: str = "sdpa",
    ) -> None:
        super().__init__()
        if hidden % 2:
            raise ValueError(f"hidden {hidden} must be even: the time is embedded as sines and cosines.")
        self.hidden = hidden
        with real_buffers():
            self.transformer = AutoModel.from_config(
                expert_config(trunk, hidden, mlp), dtype=torch.get_default_dtype(), attn_implementation=attention
            )
        self.transformer.embed_tokens = None
        take_on(self.transformer)
        self.state_in = nn.Linear(state_dim, hidden) if state_dim else None
        self.action_in = nn.Linear(action_dim, hidden)
        self.time_in, self.time_out = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
        self.action_out = nn.Linear(hidden, action_dim)

    def forward(
        self,
        noisy: Tensor,
        time: Tensor,
        state: Tensor | None,
        keys_values: list[KeyValue],
        context_valid: Tensor,
        valid: Tensor,
    ) -> Tensor:
        """The velocity at `noisy`.

        Args:
            noisy: [B, C, A].
            time: [B] in (0, 1].
            state: [B, S], for an expert with a state token.
            keys_values: of each layer of the trunk, T tokens.
            context_valid: bool [B, T].
            valid: bool [B, C], see `suffix_visible`.

        Returns:
            [B, C, A].
        """
        embedded = time_embedding(time, self.hidden).to(noisy.dtype)[:, None].expand(-1, noisy.shape[1], -1)
        x = self.time_out(F.silu(self.time_in(torch.cat([self.action_in(noisy), embedded], dim=-1))))
        if self.state_in is not None:
            if state is None:
                raise ValueError("The expert reads proprioception, but there is no state.")
            x = torch.cat([self.state_in(state)[:, None], x], dim=1)
        to = context_valid[:, None].expand(-1, x.shape[1], -1)
        mask = additive(torch.cat([to, suffix_visible(valid, self.state_in is not None)], dim=2), x.dtype)
        # Behind the trunk's last token; as there, padding takes no position.
        position_ids = context_valid.sum(1, keepdim=True) + torch.arange(x.shape[1], device=x.device)
        rotary = self.transformer.rotary_emb(x, position_ids)
        for layer, (key, value) in zip(self.transformer.layers, keys_values, strict=True):
            x = layer(x, key, value, attention_mask=mask, position_ids=position_ids, position_embeddings=rotary)
        return self.action_out(self.transformer.norm(x)[:, -noisy.shape[1] :])
