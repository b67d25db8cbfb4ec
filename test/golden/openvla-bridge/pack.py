"""Turns a checkpoint into the declared packages, reloads each in a fresh process and compares its actions with the
trainer's.

    python pack.py [--checkpoint runs/openvla-bridge/checkpoints/step-00050000] [--out packages]

Written by `vla build` 0.1.0 from pipeline.ts (plan eb923a39). Change pipeline.ts and build again; hooks.py is yours.
"""

from model import build_model
from train import MODULES
from vla_runtime.errors import run_or_explain
from vla_runtime.pack.checkpoint import open_checkpoint, pack_arguments
from vla_runtime.pack.hf import hf


def main() -> None:
    arguments = pack_arguments(run="runs/openvla-bridge", out="packages")
    checkpoint = open_checkpoint(arguments.checkpoint, build_model, MODULES)  # the newest complete one by default
    hf(checkpoint, arguments.out / "hf", dtype="bf16")


if __name__ == "__main__":
    run_or_explain(main)
