/**
 * OpenVLA-7B fully fine-tuned on BridgeData V2.
 *
 * Source: github.com/openvla/openvla, prismatic/conf/vla.py, `prism-dinosiglip-224px+mx-bridge` (8 GPUs, 32 samples on each, a constant
 * 2e-5, no weight decay, clip 1, `fsdp-full-shard`, activation checkpointing of the language model, bf16 with reductions in fp32);
 * README, "Fully Fine-Tuning OpenVLA" (`--image_aug True`); vla-scripts/train.py (a checkpoint every 2,500 updates, seed 7).
 *
 * The configuration names no end. Here it is the 27 epochs of the paper (arXiv 2406.09246, section 3.4) over the 2,135,463 transitions
 * that OpenVLA counts in Bridge: 27 x 2,135,463 / 256.
 */
import {
  adamw,
  constant,
  defineVLAPipeline,
  fsdp2,
  gpus,
  hf,
  imageAugmentation,
  lerobotDataset,
  openvla,
  torchrun,
  wandb,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-full',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ repo: 'lerobot/bridge', revision: 'v3.0' }),
  cameras: { primary: 'observation.images.image_0' },
  augment: imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
  hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: { lr: 2e-5, dtype: 'bf16' },
    projector: { lr: 2e-5, dtype: 'bf16' },
    language: { lr: 2e-5, dtype: 'bf16', recompute: 'full' },
  },
  parallel: fsdp2({ shard: 'full' }),
  training: {
    updates: 225_224,
    globalBatch: 256,
    microBatch: 32,
    weightDecay: 0,
    optimizer: adamw({ betas: [0.9, 0.999], eps: 1e-8 }),
    schedule: constant(),
    clip: 1,
    seed: 7,
  },
  checkpoint: { every: 2_500 },
  track: [wandb({ project: 'openvla' })],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun()],
})
