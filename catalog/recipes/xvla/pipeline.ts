/**
 * X-VLA fine-tuned in full for another robot.
 *
 * Source: huggingface.co/docs/lerobot/xvla, "Training X-VLA" (from lerobot/xvla-base, `action_mode` auto with 20 dimensions, 20,000
 * updates, bf16, nothing frozen, the vision-language model at a tenth of the rate of the rest) and
 * lerobot/policies/xvla/configuration_xvla.py (1e-4 with a warm-up of 1,000 updates down to 2.5e-6 at update 30,000, which LeRobot
 * shortens with the run; AdamW with 0.9 and 0.99, no decay, clip 10). 8 samples per update are lerobot-train's default.
 *
 * The page leaves the dataset open.
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  gpus,
  lerobot,
  lerobotDataset,
  tensorboard,
  torchrun,
  xvla,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'xvla',
  model: xvla({
    weights: 'lerobot/xvla-base',
    cameras: ['image', 'image2'],
    config: { action_mode: 'auto', max_action_dim: 20 },
  }),
  data: lerobotDataset({ repo: 'your-name/your-dataset' }),
  cameras: { image: 'observation.images.front', image2: 'observation.images.wrist' },
  hardware: gpus('RTX-4090', { perNode: 1 }),
  modules: {
    vision: { lr: 1e-5, dtype: 'bf16' },
    projector: { lr: 1e-5, dtype: 'bf16' },
    language: { lr: 1e-5, dtype: 'bf16' },
    policy: { lr: 1e-4, dtype: 'bf16' },
    softPrompts: { lr: 1e-4, dtype: 'bf16' },
    heads: { lr: 1e-4, dtype: 'bf16' },
  },
  training: {
    updates: 20_000,
    globalBatch: 8,
    microBatch: 8,
    weightDecay: 0,
    optimizer: adamw({ betas: [0.9, 0.99], eps: 1e-8 }),
    schedule: cosine({ warmup: 666, floor: 0.025 }),
    clip: 10,
    seed: 1_000,
  },
  checkpoint: { every: 2_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
