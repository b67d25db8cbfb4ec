"""The architecture: LeRobot's ACT over a small ResNet, with the dropout that it trains with."""

from lerobot.policies.pretrained import PreTrainedPolicy
from small_specs import act  # pyright: ignore[reportMissingImports] - the test lays it beside this file
from vla_runtime.policies.spec import build_policy

POLICY = act(config={"dropout": 0.1})


def build_model() -> PreTrainedPolicy:
    """LeRobot's own class, initialised as LeRobot does."""
    return build_policy(POLICY)
