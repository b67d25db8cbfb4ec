"""Asking a LeRobot policy for a chunk of actions. Stands alone: nothing but torch, and what stock LeRobot offers."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def predict_chunk(policy: Any, inputs: Mapping[str, Any], noise: Tensor | None = None) -> Tensor:
    """The actions that a policy answers to observations, from a fresh episode on.

    Args:
        policy: of a LeRobot class.
        inputs: what the preprocessor returned, B samples; with a time dimension behind B where the policy's
            `observation_delta_indices` say so.
        noise: what the policy's `predict_action_chunk` takes as `noise`.

    Returns:
        [B, C, A], normalised.
    """
    policy.reset()
    more = {} if noise is None else {"noise": noise}
    observation = {name: value for name, value in inputs.items() if name != "action" and not name.endswith("_is_pad")}
    if not _through_queues(policy):
        return policy.predict_action_chunk(observation, **more)
    # These policies read observations from queues that `select_action` fills; the first call fills them with copies.
    timed = policy.config.observation_delta_indices is not None
    steps = len(policy.config.observation_delta_indices) if timed else 1
    waiting = policy._queues["action"]
    first = torch.empty(0)
    for step in range(steps):
        present = {
            name: value[:, step] if timed and name in policy.config.input_features else value
            for name, value in observation.items()
        }
        if step < steps - 1:
            waiting.append(first)  # an action at hand, so that the policy only takes note of the observation
        first = policy.select_action(present, **more)
        waiting = policy._queues["action"]
    return torch.stack([first, *waiting], dim=1)


def _through_queues(policy: Any) -> bool:
    """Whether `predict_action_chunk` reads observations from the policy's queues alone; diffusion's takes either."""
    queues = getattr(policy, "_queues", None) or {}
    return policy.config.type != "diffusion" and any(name.startswith("observation") for name in queues)
