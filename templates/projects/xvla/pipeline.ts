import { defineVLAPipeline, gpus, lerobot, lerobotDataset, slurm, tensorboard, torchrun, xvla } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'xvla',
  model: xvla({ weights: 'lerobot/xvla-base', cameras: ['image', 'image2'] }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  cameras: { image: 'observation.images.front', image2: 'observation.images.wrist' },
  hardware: gpus('A100-SXM-80GB', { perNode: 2 }),
  modules: {
    // X-VLA's recipe: the vision-language model at a tenth of the rate of the rest.
    vision: { lr: 1e-5, recompute: 'full' },
    projector: { lr: 1e-5 },
    language: { lr: 1e-5, recompute: 'full' },
    policy: { lr: 1e-4, recompute: 'full' },
    softPrompts: { lr: 1e-4 },
    heads: { lr: 1e-4 },
  },
  training: { updates: 30_000, globalBatch: 64, microBatch: 16, seed: 7, validateEvery: 1_000 },
  checkpoint: { every: 1_000, keep: 3 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00', requeue: true })],
})
