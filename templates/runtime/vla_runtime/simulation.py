"""MetaWorld at the size a policy is trained on, in one rendering for recording and for evaluation.

LeRobot's own environment always renders 480 x 480 with shadows. This subclass changes the size and, with `shadows=False`,
switches shadows and multi-sampling off (ten times faster in software); at 480 px with shadows its frames equal the stock ones.
One process holds one task: two live MetaWorld environments of different tasks give each other's frames.

This file stands alone (no relative imports), because the recorder runs before a project is built.
"""

import ctypes.util
import os
import warnings
from typing import Any

import numpy as np

FPS = 80
STATE_NAMES = ["gripper_x", "gripper_y", "gripper_z", "gripper_opening"]
ACTION_NAMES = ["delta_x", "delta_y", "delta_z", "gripper_effort"]
INSTALL_HINT = (
    "Install one of them, on Debian or Ubuntu:\n"
    "    apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri    # EGL\n"
    "    apt-get install -y libosmesa6                              # or OSMesa"
)


class RenderingMissing(RuntimeError):
    """Neither EGL nor OSMesa is installed, so MuJoCo cannot draw without a screen."""


def choose_renderer() -> str:
    """Sets MUJOCO_GL to `egl`, else `osmesa`, unless the environment already says which; returns the choice.

    Must run before mujoco is imported. Only looks for the library; `probe_rendering` draws a frame.

    Raises:
        RenderingMissing: neither library is on this machine.
    """
    chosen = os.environ.get("MUJOCO_GL")
    if not chosen:
        if ctypes.util.find_library("EGL"):
            chosen = "egl"
        elif ctypes.util.find_library("OSMesa"):
            chosen = "osmesa"
        else:
            raise RenderingMissing(f"no software renderer: neither libEGL nor libOSMesa was found.\n{INSTALL_HINT}")
        os.environ["MUJOCO_GL"] = chosen
    os.environ.setdefault("PYOPENGL_PLATFORM", chosen)
    return chosen


def make_environment(task: str, image_size: int, shadows: bool = False) -> Any:
    """One MetaWorld environment whose observations are `pixels` (uint8 [size, size, 3]) and `agent_pos` (float64 [4]).

    Args:
        task: MetaWorld's name, such as `reach-v3`.
        image_size: pixels, square.
        shadows: draw shadows and multi-sample, as LeRobot's own environment does.

    Raises:
        RenderingMissing: no renderer (see `choose_renderer`).
        ValueError: MetaWorld has no such task.
    """
    choose_renderer()
    # The experts' gains are meant to saturate; MetaWorld says so at every step.
    warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high")
    import metaworld
    from lerobot.envs.metaworld import MetaworldEnv

    instruction(task)  # refuses an unknown task

    class SizedMetaworldEnv(MetaworldEnv):
        """LeRobot's environment with another frame size and, if asked, without shadows."""

        def _ensure_env(self) -> None:
            if self._env is not None:
                return
            mt1 = metaworld.MT1(self._env_name, seed=42)
            env = mt1.train_classes[self._env_name](
                render_mode="rgb_array", camera_name=self.camera_name, width=image_size, height=image_size
            )
            env.set_task(mt1.train_tasks[0])
            env.model.cam_pos[2] = [0.75, 0.075, 0.7]
            if not shadows:  # has to be set before the first frame is drawn
                env.model.vis.quality.shadowsize = 0
                env.model.vis.quality.offsamples = 0
            env.reset()
            env._freeze_rand_vec = False
            env.seeded_rand_vec = True
            self._env = env

        def goal(self) -> np.ndarray:
            """Where the object of the task has to go, in metres [3]."""
            return np.asarray(self._env._target_pos, dtype=np.float64)

        def expert_action(self) -> np.ndarray:
            """What MetaWorld's scripted expert would do now, clipped to the action space [4]."""
            raw = self._env._get_obs()
            return np.clip(np.asarray(self.expert_policy.get_action(raw), dtype=np.float32), -1.0, 1.0)

    return SizedMetaworldEnv(
        task=task, obs_type="pixels_agent_pos", observation_width=image_size, observation_height=image_size
    )


def instruction(task: str) -> str:
    """LeRobot's sentence for a MetaWorld task.

    Raises:
        ValueError: MetaWorld has no such task.
    """
    from lerobot.envs.metaworld import TASK_DESCRIPTIONS

    if task not in TASK_DESCRIPTIONS:
        raise ValueError(f"MetaWorld has no task '{task}'; it has {', '.join(sorted(TASK_DESCRIPTIONS))}")
    return TASK_DESCRIPTIONS[task]


def probe_rendering() -> str:
    """Draws one frame, if need be with the second renderer, and returns the renderer that worked.

    Raises:
        RenderingMissing: no renderer is installed, or the frame came out black.
    """
    renderer = choose_renderer()
    environment = make_environment("reach-v3", 64)
    observation, _ = environment.reset(seed=0)
    spread = float(observation["pixels"].std())
    environment.close()
    if spread <= 1.0:
        raise RenderingMissing(
            f"MUJOCO_GL={renderer} draws black frames (standard deviation {spread:.2f}).\n{INSTALL_HINT}"
        )
    return renderer


if __name__ == "__main__":
    import sys

    try:
        print(probe_rendering())
    except RenderingMissing as missing:
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(2)
