"""Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the
trainer's.

    python pack.py [--checkpoint runs/openvla-lora/checkpoints/step-00020000] [--out packages]

Written by `vla build` 0.1.0 from pipeline.ts (plan c2952b3b). Change pipeline.ts and build again; hooks.py is yours.
"""

from model import build_model
from train import MODULES
from vla_runtime.errors import run_or_explain
from vla_runtime.pack.checkpoint import open_checkpoint, pack_arguments
from vla_runtime.pack.hf import hf


def main() -> None:
    arguments = pack_arguments(run="runs/openvla-lora", out="packages")
    # the newest complete one by default; LoRA is merged
    checkpoint = open_checkpoint(arguments.checkpoint, build_model, MODULES)
    hf(checkpoint, arguments.out / "hf", dtype="bf16")


if __name__ == "__main__":
    run_or_explain(main)
