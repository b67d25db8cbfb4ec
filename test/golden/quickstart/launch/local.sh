#!/usr/bin/env bash
# Trains on this machine with 2 processes. Started again, it resumes from the newest complete checkpoint in
# runs/quickstart.
#
# Written by `vla build` 0.1.0 from pipeline.ts (plan 4644000a). Change pipeline.ts and build again; hooks.py is
# yours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# torchrun would set 1; each process gets its share of the cores.
cores=$(nproc)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 2 ? cores / 2 : 1))}"

exec "${PYTHON:-python}" -m torch.distributed.run \
  --standalone \
  --nnodes=1 \
  --nproc-per-node=2 \
  train.py "$@"
