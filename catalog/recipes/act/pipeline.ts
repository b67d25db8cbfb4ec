/**
 * ACT on 50 demonstrations of handing over a cube.
 *
 * Source: huggingface.co/docs/lerobot/act (8 samples per update, 100,000 updates, one GPU), the model card of
 * lerobot/act_aloha_sim_transfer_cube_human (the dataset) and lerobot/policies/act/configuration_act.py (chunks of 100 actions, 1e-5 for
 * everything, the ResNet too, decay 1e-4 on everything, AdamW, clip 10, a constant rate); Zhao et al. 2023, arXiv 2304.13705.
 *
 */
import {
  act,
  adamw,
  constant,
  defineVLAPipeline,
  gpus,
  lerobot,
  lerobotDataset,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'act-aloha',
  model: act({ cameras: ['top'], chunk: 100 }),
  data: lerobotDataset({ repo: 'lerobot/aloha_sim_transfer_cube_human' }),
  cameras: { top: 'observation.images.top' },
  hardware: gpus('RTX-4090', { perNode: 1 }),
  training: {
    updates: 100_000,
    globalBatch: 8,
    microBatch: 8,
    lr: 1e-5,
    weightDecay: 1e-4,
    optimizer: adamw({ betas: [0.9, 0.999], eps: 1e-8, decayBiasAndNorm: true }),
    schedule: constant(),
    clip: 10,
    seed: 1_000,
  },
  checkpoint: { every: 20_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
