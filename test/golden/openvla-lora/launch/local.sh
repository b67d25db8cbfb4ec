#!/usr/bin/env bash
# Trains on this machine with 4 processes. Started again, it resumes from the newest complete checkpoint in
# runs/openvla-lora.
#
# Written by `vla build` 0.1.0 from pipeline.ts (plan c2952b3b). Change pipeline.ts and build again; hooks.py is
# yours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# torchrun would set 1; each process gets its share of the cores.
cores=$(nproc)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 4 ? cores / 4 : 1))}"

exec "${PYTHON:-python}" -m torch.distributed.run \
  --standalone \
  --nnodes=1 \
  --nproc-per-node=4 \
  train.py "$@"
