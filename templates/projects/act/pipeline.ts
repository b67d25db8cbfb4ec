import { act, cosine, defineVLAPipeline, gpus, lerobot, lerobotDataset, tensorboard, torchrun } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'act',
  model: act({ cameras: ['top', 'wrist'], chunk: 100 }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  cameras: { top: 'observation.images.top', wrist: 'observation.images.wrist' },
  hardware: gpus('RTX-4090', { perNode: 1 }),
  modules: {
    vision: { lr: 1e-5 },
    encoder: { lr: 5e-5 },
    decoder: { lr: 5e-5 },
  },
  training: {
    updates: 100_000,
    globalBatch: 8,
    microBatch: 8,
    lr: 5e-5, // for the modules that name none
    schedule: cosine({ warmup: '1%' }),
    seed: 7,
    validateEvery: 5_000,
  },
  checkpoint: { every: 10_000, keep: 3 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
