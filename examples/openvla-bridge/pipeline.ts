/**
 * OpenVLA-7B fully fine-tuned in stages on one node of eight H100: the vision towers wait for three quarters of the run, then their
 * last six live blocks train.
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  gpus,
  hf,
  lastLayers,
  lerobotDataset,
  openvla,
  slurm,
  tensorboard,
  torchrun,
  until,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-bridge',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ repo: 'lerobot/bridge', revision: 'v3.0' }),
  cameras: { primary: 'observation.images.image_0' },
  hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: {
      lr: 2e-6,
      weightDecay: 0,
      dtype: 'bf16',
      recompute: 'full',
      freeze: until('75%', { thenTrain: lastLayers(6) }),
    },
    projector: { lr: 1e-4, weightDecay: 0.01, dtype: 'bf16' },
    language: { lr: 2e-5, weightDecay: 0.1, dtype: 'bf16', recompute: 'full' },
  },
  training: {
    updates: 50_000,
    globalBatch: 256,
    microBatch: 16,
    optimizer: adamw(),
    schedule: cosine({ warmup: '3%' }),
    clip: 1.0,
    seed: 7,
  },
  checkpoint: { every: 1_000, keep: 3 },
  track: [tensorboard()],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00', setup: ['module load cuda/12.8'] })],
})
