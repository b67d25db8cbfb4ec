"""Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the
trainer's.

    python pack.py [--checkpoint runs/metaworld-reach/checkpoints/step-00002400] [--out packages]

Written by `vla build` 0.1.0 from pipeline.ts (plan dd67b1b2). Change pipeline.ts and build again; hooks.py is yours.
"""

from model import POLICY, build_model
from train import MODULES
from vla_runtime.errors import run_or_explain
from vla_runtime.pack.checkpoint import open_checkpoint, pack_arguments
from vla_runtime.pack.policy_directory import policy_directory


def main() -> None:
    arguments = pack_arguments(run="runs/metaworld-reach", out="packages")
    checkpoint = open_checkpoint(arguments.checkpoint, build_model, MODULES)  # the newest complete one by default
    policy_directory(
        checkpoint,
        POLICY,
        arguments.out / "lerobot",
        dtype="fp32",
        action_steps=1,  # of a chunk, before the policy is asked again
        roots={"reach": "../../data/reach"},  # for the names of dimensions
    )


if __name__ == "__main__":
    run_or_explain(main)
