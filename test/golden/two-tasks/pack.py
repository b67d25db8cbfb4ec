"""Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the
trainer's.

    python pack.py [--checkpoint runs/two-tasks/checkpoints/step-00007000] [--out packages]

Written by `vla build` 0.1.0 from pipeline.ts (plan c2bed236). Change pipeline.ts and build again; hooks.py is yours.
"""

from model import build_model
from train import MODULES
from vla_runtime.errors import run_or_explain
from vla_runtime.pack.checkpoint import open_checkpoint, pack_arguments
from vla_runtime.pack.lerobot import lerobot


def main() -> None:
    arguments = pack_arguments(run="runs/two-tasks", out="packages")
    checkpoint = open_checkpoint(arguments.checkpoint, build_model, MODULES)  # the newest complete one by default
    lerobot(
        checkpoint,
        arguments.out / "lerobot",
        dtype="fp32",
        action_steps=1,  # of a chunk, before the policy is asked again
    )


if __name__ == "__main__":
    run_or_explain(main)
