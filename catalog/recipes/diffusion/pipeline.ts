/**
 * Diffusion Policy on PushT.
 *
 * Source: the model card of lerobot/diffusion_pusht (lerobot/pusht, one RTX 3090) with the configuration that it names,
 * lerobot/configs/policy/diffusion.yaml (200,000 updates of 64 samples, two frames of observation, 16 actions of which 8 are executed, a
 * crop of 84 x 84, a ResNet-18 with GroupNorm that is not pretrained, 1e-4 with a warm-up of 500 updates and a cosine to zero, betas 0.95
 * and 0.999, decay 1e-6, clip 10); Chi et al. 2023, arXiv 2303.04137. Adam adds the decay to the gradient there; AdamW's is decoupled.
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  diffusion,
  gpus,
  lerobot,
  lerobotDataset,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'diffusion-pusht',
  model: diffusion({
    cameras: ['image'],
    chunk: 16,
    config: {
      n_obs_steps: 2,
      n_action_steps: 8,
      crop_shape: [84, 84],
      pretrained_backbone_weights: null,
      use_group_norm: true,
    },
  }),
  data: lerobotDataset({ repo: 'lerobot/pusht' }),
  cameras: { image: 'observation.image' },
  hardware: gpus('RTX-3090', { perNode: 1 }),
  training: {
    updates: 200_000,
    globalBatch: 64,
    microBatch: 64,
    lr: 1e-4,
    weightDecay: 1e-6,
    optimizer: adamw({ betas: [0.95, 0.999], eps: 1e-8, decayBiasAndNorm: true }),
    schedule: cosine({ warmup: 500 }),
    clip: 10,
    seed: 100_000,
  },
  checkpoint: { every: 20_000 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
