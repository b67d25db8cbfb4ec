#!/usr/bin/env bash
# Trains on 2 nodes. Start it on each of them with the first one's address: HEAD=node0 launch/local.sh
#
# Written by `vla build` 0.1.0 from pipeline.ts (plan 84804671). Change pipeline.ts and build again; hooks.py is
# yours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${HEAD:?set HEAD to the address of the first node}"

# torchrun would set 1; each process gets its share of the cores.
cores=$(nproc)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 8 ? cores / 8 : 1))}"

exec "${PYTHON:-python}" -m torch.distributed.run \
  --nnodes=2 \
  --rdzv-backend=c10d \
  --rdzv-endpoint="$HEAD:${PORT:-29500}" \
  --rdzv-id=own-vla \
  --nproc-per-node=8 \
  train.py "$@"
