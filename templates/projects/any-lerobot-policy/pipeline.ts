import { defineVLAPipeline, gpus, lerobot, lerobotDataset, lerobotPolicy, tensorboard, torchrun } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'any-lerobot-policy',
  // `npx vla inspect vqbet --cameras front` prints the module tree and proposes these modules.
  model: lerobotPolicy({
    type: 'vqbet',
    // plugin: 'lerobot_policy_mine',  // a package that registers the type when it is imported
    cameras: ['front'],
    chunk: 5,
    images: 'identity',
    modules: {
      vision: { parameters: ['vqbet.rgb_encoder.*'] },
      policy: { parameters: ['vqbet.[!r]*'] },
    },
  }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  cameras: { front: 'observation.images.front' },
  hardware: gpus('RTX-4090', { perNode: 1 }),
  modules: { vision: { lr: 1e-5 } },
  training: { updates: 50_000, globalBatch: 64, microBatch: 64, lr: 1e-4, seed: 7, validateEvery: 1_000 },
  checkpoint: { every: 5_000, keep: 3 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun()],
})
