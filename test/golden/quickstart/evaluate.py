"""Rolls the packaged policy out in MetaWorld, in the rendering that it was trained on.

    python evaluate.py [--package packages/lerobot] [--ablate image|instruction|action] [--episodes 5]

Written by `vla build` 0.1.0 from pipeline.ts (plan 4644000a). Change pipeline.ts and build again; hooks.py is yours.
"""

from vla_runtime.errors import run_or_explain
from vla_runtime.rollout import Recording, evaluate, rollout_arguments


def main() -> None:
    arguments = rollout_arguments(package="packages/lerobot", out="evaluation")
    evaluate(
        arguments,
        tasks=["reach-v3"],
        episodes=5,  # seeds 10000 to 10004 of each task
        first_seed=10_000,
        max_steps=100,
        image_size=64,  # as recorded
        action_steps=8,  # of a chunk, before the policy is asked again
        camera="front",
        # their first frames must equal the simulator's
        datasets=[Recording("metaworld", root="../../data/metaworld", image_feature="observation.image")],
    )


if __name__ == "__main__":
    run_or_explain(main)
