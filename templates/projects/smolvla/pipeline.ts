import { defineVLAPipeline, gpus, lerobot, lerobotDataset, slurm, smolvla, tensorboard, torchrun } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'smolvla',
  model: smolvla({ weights: 'lerobot/smolvla_base' }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  cameras: { camera1: 'observation.images.front', camera2: 'observation.images.wrist' },
  hardware: gpus('RTX-4090', { perNode: 1 }),
  modules: {
    // LeRobot trains the expert alone. To train the language model too, give it a learning rate.
    vision: { freeze: 'always' },
    projector: { freeze: 'always' },
    language: { freeze: 'always' },
    expert: { lr: 1e-4 },
    heads: { lr: 1e-4, dtype: 'fp32' },
  },
  training: { updates: 20_000, globalBatch: 64, microBatch: 64, seed: 7, validateEvery: 1_000 },
  checkpoint: { every: 2_000, keep: 3 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00', requeue: true })],
})
