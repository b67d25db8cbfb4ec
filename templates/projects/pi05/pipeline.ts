import {
  defineVLAPipeline,
  fsdp2,
  gpus,
  lerobot,
  lerobotDataset,
  lora,
  pi05,
  slurm,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'pi05',
  model: pi05({ weights: 'lerobot/pi05_base' }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both. pi0.5 normalises by quantiles: it needs q01 and q99.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  // right_wrist_0_rgb is left out where the robot has no second wrist camera.
  cameras: { base_0_rgb: 'observation.images.top', left_wrist_0_rgb: 'observation.images.wrist' },
  hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
  modules: {
    vision: { freeze: 'always' },
    language: { adapt: lora({ rank: 16 }), dtype: 'bf16', recompute: 'full' },
    expert: { lr: 5e-5, dtype: 'bf16', recompute: 'full' },
    heads: { lr: 5e-5, dtype: 'fp32' },
  },
  parallel: fsdp2({ shard: 'full' }),
  training: { updates: 30_000, globalBatch: 64, microBatch: 16, seed: 7, validateEvery: 1_000 },
  checkpoint: { every: 1_000, keep: 3 },
  track: [tensorboard()],
  export: [lerobot()],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00', requeue: true })],
})
