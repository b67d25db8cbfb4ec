/**
 * An own VLA around a language model of 32 billion parameters, on eight nodes: two robots in one mixture, a tower of SigLIP, flow matching
 * by a transformer that attends to the trunk.
 *
 * No published run. The parts are: SigLIP So400m/14 at 384 pixels (timm), Qwen2.5-32B (arXiv 2412.15115; vla.lock.json holds its
 * config.json), a two-layer projector (Prismatic, arXiv 2402.07865), flow matching with cross attention (GR00T N1, arXiv 2503.14734),
 * chunks of 50 actions (pi0, arXiv 2410.24164).
 */
import {
  causalLM,
  composed,
  cosine,
  defineVLAPipeline,
  flowMatching,
  fsdp2,
  gpus,
  hf,
  lerobot,
  lerobotDataset,
  mlp,
  slurm,
  tensorboard,
  timmVision,
  wandb,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'own-34b',
  model: composed({
    cameras: ['front', 'wrist'],
    vision: timmVision('vit_so400m_patch14_siglip_384'),
    projector: mlp({ layers: 2 }),
    language: causalLM('Qwen/Qwen2.5-32B'),
    action: flowMatching({ layers: 12, hidden: 1024, chunk: 50 }),
  }),
  data: [
    {
      from: lerobotDataset({ repo: 'your-name/arm_a' }),
      weight: 3,
      cameras: { front: 'observation.images.cam_high', wrist: 'observation.images.cam_right' },
    },
    {
      from: lerobotDataset({ repo: 'your-name/arm_b' }),
      weight: 1,
      cameras: { front: 'observation.images.main', wrist: 'observation.images.hand' },
    },
  ],
  normalize: { action: 'quantiles', constant: 'pass' },
  hardware: gpus('H100-SXM-80GB', { perNode: 8, nodes: 8, network: 'ib-400' }),
  modules: {
    vision: { lr: 1e-5, dtype: 'bf16', recompute: 'full' },
    projector: { lr: 1e-4, dtype: 'bf16' },
    language: { lr: 1e-5, dtype: 'bf16', recompute: 'full' },
    action: { lr: 1e-4, dtype: 'bf16' },
  },
  parallel: fsdp2({ shard: 'full' }),
  training: {
    updates: 50_000,
    globalBatch: 512,
    microBatch: 4,
    weightDecay: 0.01,
    schedule: cosine({ warmup: '3%' }),
    clip: 1,
    seed: 7,
  },
  checkpoint: { every: 1_000, keep: 3 },
  track: [tensorboard(), wandb({ project: 'own-34b' })],
  export: [hf({ dtype: 'bf16' }), lerobot({ dtype: 'bf16' })],
  launch: [slurm({ partition: 'gpu', time: '2-00:00:00' })],
})
