/**
 * OpenVLA-OFT on LIBERO-Spatial: chunks of 8 actions, parallel decoding, an L1 head that trains in full beside rank-32 adapters.
 *
 * Source: github.com/moojink/openvla-oft, LIBERO.md (8 GPUs, 8 samples on each, 5e-4, `image_aug True`, a checkpoint every 10,000 updates)
 * and vla-scripts/finetune.py (rank 32, alpha min(rank, 16), torch's AdamW with its decay of 0.01, no clipping, DDP); arXiv 2502.19645.
 *
 * Of two variants in the paper this is the one that sees the third-person image alone: the wrist camera and proprioception wait until
 * openvla() takes them. The published run goes on for 50,000 updates at a tenth of the rate; what stands here is the part before.
 */
import {
  adamw,
  constant,
  ddp,
  defineVLAPipeline,
  gpus,
  hf,
  imageAugmentation,
  lerobotDataset,
  lora,
  openvla,
  regression,
  torchrun,
  wandb,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-oft',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d', action: regression({ chunk: 8 }) }),
  data: lerobotDataset({ repo: 'lerobot/libero_spatial_image' }),
  cameras: { primary: 'observation.images.image' },
  augment: imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
  hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: { adapt: lora({ rank: 32, alpha: 16 }), dtype: 'bf16' },
    projector: { adapt: lora({ rank: 32, alpha: 16 }), dtype: 'bf16' },
    language: { adapt: lora({ rank: 32, alpha: 16 }), dtype: 'bf16' },
    action: { lr: 5e-4, dtype: 'bf16' },
  },
  parallel: ddp(),
  training: {
    updates: 100_000,
    globalBatch: 64,
    microBatch: 8,
    lr: 5e-4,
    weightDecay: 0.01,
    optimizer: adamw({ betas: [0.9, 0.999], eps: 1e-8 }),
    schedule: constant(),
    clip: 'none',
    seed: 7,
  },
  checkpoint: { every: 10_000 },
  track: [wandb({ project: 'openvla-oft' })],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun()],
})
