"""Rolls the packaged policy out in MetaWorld, in the rendering that it was trained on.

    python evaluate.py [--package packages/lerobot] [--ablate image|instruction|action] [--episodes 50]

Written by `vla build` 0.1.0 from pipeline.ts (plan dd67b1b2). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime.errors import run_or_explain
from vla_runtime.rollout import Recording, evaluate, rollout_arguments


def main() -> None:
    arguments = rollout_arguments(package="packages/lerobot", out="evaluation")
    evaluate(
        arguments,
        tasks=["reach-v3"],
        episodes=50,  # seeds 10000 to 10049 of each task
        first_seed=10_000,
        max_steps=100,
        image_size=64,  # as recorded
        action_steps=1,  # of a chunk, before the policy is asked again
        camera="image",
        # their first frames must equal the simulator's
        datasets=[Recording("reach", root="../../data/reach", image_feature="observation.image")],
    )


if __name__ == "__main__":
    run_or_explain(main)
