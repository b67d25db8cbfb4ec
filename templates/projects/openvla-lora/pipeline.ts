import {
  cosine,
  defineVLAPipeline,
  gpus,
  hf,
  imageAugmentation,
  lerobotDataset,
  lora,
  openvla,
  slurm,
  tensorboard,
  torchrun,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-lora',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  // Your dataset: a folder (`root`), a repository of the hub (`repo`), or both.
  data: lerobotDataset({ repo: 'your-name/your-dataset', holdout: '5%' }),
  cameras: { primary: 'observation.images.front' },
  augment: imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
  hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
  modules: {
    // Rank 32 on every linear layer that receives a gradient: 109,019,136 trained parameters, 1.4 % of the model.
    vision: { adapt: lora({ rank: 32 }), dtype: 'bf16' },
    projector: { adapt: lora({ rank: 32 }), dtype: 'bf16' },
    language: { adapt: lora({ rank: 32 }), dtype: 'bf16', recompute: 'full' },
  },
  training: {
    updates: 20_000,
    globalBatch: 64,
    microBatch: 16,
    lr: 5e-4,
    schedule: cosine({ warmup: '3%' }),
    clip: 1,
    seed: 7,
    validateEvery: 1_000,
  },
  checkpoint: { every: 1_000, keep: 3 },
  track: [tensorboard()],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00', requeue: true })],
})
