/**
 * OpenVLA-7B fully fine-tuned in stages: the towers keep what they were trained to see for three quarters of the run, then their last six
 * live blocks train, at a fiftieth of the projector's rate.
 *
 * No published run: a way of training that OpenVLA's own script cannot express, whose two stages are its `icy` configurations (vision
 * frozen) and its full fine-tuning (github.com/openvla/openvla, prismatic/conf/vla.py).
 */
import {
  adamw,
  cosine,
  defineVLAPipeline,
  fsdp2,
  gpus,
  hf,
  lastLayers,
  lerobot,
  lerobotDataset,
  openvla,
  slurm,
  torchrun,
  until,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-staged',
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
  parallel: fsdp2({ shard: 'full' }),
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
  export: [hf({ dtype: 'bf16' }), lerobot()],
  launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00' })],
})
