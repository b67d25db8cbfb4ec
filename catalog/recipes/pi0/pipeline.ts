/**
 * pi0 fine-tuned in full, as on LeRobot's page.
 *
 * Source: huggingface.co/docs/lerobot/pi0 (from lerobot/pi0_base, 32 samples per update, 3,000 updates that the cosine falls over,
 * gradient checkpointing, bf16) and lerobot/policies/pi0/configuration_pi0.py (2.5e-5 with a warm-up of 1,000 updates down to 2.5e-6,
 * AdamW with 0.9 and 0.95, decay 0.01 on everything, clip 1).
 *
 * The page leaves the dataset open. Where it keeps the masters in bf16, they are fp32 here: small updates would be lost in bf16.
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  gpus,
  lerobot,
  lerobotDataset,
  pi0,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'pi0',
  model: pi0({ weights: 'lerobot/pi0_base', cameras: ['base_0_rgb', 'left_wrist_0_rgb'] }),
  data: lerobotDataset({ repo: 'your-name/your-dataset' }),
  cameras: { base_0_rgb: 'observation.images.top', left_wrist_0_rgb: 'observation.images.wrist' },
  hardware: gpus('H100-SXM-80GB', { perNode: 1 }),
  modules: {
    vision: { dtype: 'bf16', recompute: 'full' },
    projector: { dtype: 'bf16' },
    language: { dtype: 'bf16', recompute: 'full' },
    expert: { dtype: 'bf16', recompute: 'full' },
    heads: { dtype: 'fp32' },
  },
  training: {
    updates: 3_000,
    globalBatch: 32,
    microBatch: 8,
    lr: 2.5e-5,
    weightDecay: 0.01,
    optimizer: adamw({ betas: [0.9, 0.95], eps: 1e-8, decayBiasAndNorm: true }),
    schedule: cosine({ warmup: 1_000, floor: 0.1 }),
    clip: 1,
    seed: 1_000,
  },
  checkpoint: { every: 1_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
