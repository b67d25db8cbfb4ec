"""An environment for `lerobot-eval`: MetaWorld as the runtime records it, with pictures of 64 pixels and episodes of 12 steps."""

from dataclasses import dataclass
from typing import Any

import gymnasium
from lerobot.envs.configs import EnvConfig, MetaworldEnv
from vla_runtime.simulation import make_environment


@EnvConfig.register_subclass("short_metaworld")
@dataclass
class ShortMetaworld(MetaworldEnv):
    """LeRobot's MetaWorld but for the size and the length."""

    task: str = "reach-v3"

    def create_envs(self, n_envs: int, use_async_envs: bool = False) -> dict[str, dict[int, Any]]:
        """One environment, in this process."""

        def make() -> Any:
            environment = make_environment(self.task, 64)
            environment._max_episode_steps = 12
            return environment

        return {self.task: {0: gymnasium.vector.SyncVectorEnv([make] * n_envs)}}
