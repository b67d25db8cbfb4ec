/**
 * SmolVLA's action expert fine-tuned on 50 episodes of an SO-101.
 *
 * Source: huggingface.co/docs/lerobot/smolvla and the model card of lerobot/smolvla_base (lerobot/svla_so101_pickplace, 64 samples per
 * update, 20,000 updates, one A100) and lerobot/policies/smolvla/configuration_smolvla.py (the expert and the projections of state and
 * actions train, the vision-language model does not; 1e-4 with a warm-up of 1,000 updates down to 2.5e-6 at update 30,000, which LeRobot
 * shortens with the run; AdamW with 0.9 and 0.95, decay 1e-10 on everything, clip 10).
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  gpus,
  lerobot,
  lerobotDataset,
  smolvla,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'smolvla',
  model: smolvla({ weights: 'lerobot/smolvla_base', cameras: ['camera1', 'camera2'] }),
  data: lerobotDataset({ repo: 'lerobot/svla_so101_pickplace' }),
  cameras: { camera1: 'observation.images.up', camera2: 'observation.images.side' },
  hardware: gpus('A100-SXM-80GB', { perNode: 1 }),
  modules: {
    vision: { freeze: 'always' },
    projector: { freeze: 'always' },
    language: { freeze: 'always' },
    expert: { lr: 1e-4 },
    heads: { lr: 1e-4, dtype: 'fp32' },
  },
  training: {
    updates: 20_000,
    globalBatch: 64,
    microBatch: 64,
    weightDecay: 1e-10,
    optimizer: adamw({ betas: [0.9, 0.95], eps: 1e-8, decayBiasAndNorm: true }),
    schedule: cosine({ warmup: 666, floor: 0.025 }),
    clip: 10,
    seed: 1_000,
  },
  checkpoint: { every: 2_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
