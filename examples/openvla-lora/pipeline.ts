/** OpenVLA with rank-32 adapters on every linear layer, whole on each of four cards: the fine-tuning of the OpenVLA paper. */
import { cosine, ddp, defineVLAPipeline, gpus, hf, imageAugmentation, lerobotDataset, lora, openvla, slurm, torchrun, wandb } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-lora',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ root: './data/kitchen', holdout: '5%' }),
  cameras: { primary: 'observation.images.front' },
  augment: imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
  loader: { workers: 4 },
  hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
  modules: {
    vision: { adapt: lora({ rank: 32 }), dtype: 'bf16' },
    projector: { adapt: lora({ rank: 32 }), dtype: 'bf16' },
    language: { adapt: lora({ rank: 32 }), dtype: 'bf16', recompute: 'full' },
  },
  parallel: ddp(),
  training: {
    updates: 20_000,
    globalBatch: 64,
    microBatch: 8,
    lr: 5e-4,
    schedule: cosine({ warmup: '3%' }),
    clip: 1,
    seed: 7,
    validateEvery: 1_000,
  },
  checkpoint: { every: 1_000, keep: 3 },
  track: [wandb({ project: 'kitchen' })],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '12:00:00', requeue: false })],
})
