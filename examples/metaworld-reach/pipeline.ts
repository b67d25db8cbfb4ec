import { act, cosine, cpus, ddp, defineVLAPipeline, lerobot, lerobotDataset, simulation, torchrun } from 'vla-pipeline'

// LeRobot's ACT with a small ResNet, on demonstrations of noisy experts: `npm run demo:act`.
export default defineVLAPipeline({
  name: 'metaworld-reach',
  model: act({
    cameras: ['image'],
    chunk: 16,
    config: {
      pretrained_backbone_weights: null,
      dim_model: 128,
      n_heads: 4,
      dim_feedforward: 256,
      n_encoder_layers: 2,
      n_vae_encoder_layers: 1,
    },
  }),
  // python record.py --task reach-v3=600 --out data/reach
  data: lerobotDataset({ root: 'data/reach', holdout: [0, 1, 2, 3] }),
  cameras: { image: 'observation.image' },
  normalize: { constant: 'pass' },
  hardware: cpus({ processes: 2 }),
  parallel: ddp(), // 12 million parameters fit; gathering them for each update would take as long as computing it
  training: {
    updates: 2_400,
    globalBatch: 64,
    microBatch: 32,
    lr: 3e-4,
    weightDecay: 1e-4,
    schedule: cosine({ warmup: '4%' }),
    seed: 7,
    validateEvery: 400,
  },
  checkpoint: { every: 800, keep: 2 },
  evaluate: simulation({
    env: 'metaworld',
    tasks: ['reach-v3'],
    episodes: 50,
    maxSteps: 100,
    imageSize: 64,
    actionSteps: 1,
  }),
  export: [lerobot()],
  launch: [torchrun()],
})
