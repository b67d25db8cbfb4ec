/**
 * pi0.5 fine-tuned in full on LIBERO, as on LeRobot's page.
 *
 * Source: huggingface.co/docs/lerobot/pi05, "Quickstart on LIBERO" (from lerobot/pi05_libero_base, mean and standard deviation instead of
 * quantiles, 10 of 50 actions executed, one empty camera, 64 samples per update on one GPU of 80 GB, 30,000 updates, a checkpoint every
 * 5,000, gradient checkpointing, bf16, seed 1000) and lerobot/policies/pi05/configuration_pi05.py (2.5e-5 with a warm-up of 1,000 updates
 * down to 2.5e-6, AdamW with 0.9 and 0.95, decay 0.01 on everything, clip 1).
 *
 * Where the page keeps the masters in bf16, they are fp32 here, so that the 64 samples come in passes of 16.
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  gpus,
  lerobot,
  lerobotDataset,
  pi05,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'pi05-libero',
  model: pi05({
    weights: 'lerobot/pi05_libero_base',
    cameras: ['image', 'image2'],
    config: { n_action_steps: 10, empty_cameras: 1 },
  }),
  data: lerobotDataset({ repo: 'lerobot/libero' }),
  cameras: { image: 'observation.images.image', image2: 'observation.images.image2' },
  normalize: { state: 'meanStd', action: 'meanStd' },
  loader: { workers: 8 },
  hardware: gpus('H100-SXM-80GB', { perNode: 1 }),
  modules: {
    vision: { dtype: 'bf16', recompute: 'full' },
    projector: { dtype: 'bf16' },
    language: { dtype: 'bf16', recompute: 'full' },
    expert: { dtype: 'bf16', recompute: 'full' },
    heads: { dtype: 'fp32' },
  },
  training: {
    updates: 30_000,
    globalBatch: 64,
    microBatch: 16,
    lr: 2.5e-5,
    weightDecay: 0.01,
    optimizer: adamw({ betas: [0.9, 0.95], eps: 1e-8, decayBiasAndNorm: true }),
    schedule: cosine({ warmup: 1_000, floor: 0.1 }),
    clip: 1,
    seed: 1_000,
  },
  checkpoint: { every: 5_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
