/**
 * OpenVLA-7B with rank-32 adapters on LIBERO-Spatial.
 *
 * Source: github.com/openvla/openvla, vla-scripts/finetune.py (rank 32, alpha min(rank, 16), dropout 0, every linear layer, 16 samples
 * per GPU, a constant 5e-4, torch's AdamW with its decay of 0.01, no clipping, DDP, a checkpoint every 5,000 updates) and README, "LIBERO
 * Simulation Benchmark" (`image_aug True`); 8 x A100 and 50,000 updates as on the model card of openvla-7b-finetuned-libero-spatial.
 *
 * The published adapters also sit on dead layers, on the patch embeddings and on the output head, since peft 0.11.1 reads `all-linear`
 * that way: `targets` names them. Without `targets` the live linear layers are adapted.
 */
import {
  adamw,
  constant,
  ddp,
  defineVLAPipeline,
  gpus,
  hf,
  imageAugmentation,
  lerobotDataset,
  lora,
  openvla,
  torchrun,
  wandb,
} from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'openvla-lora',
  model: openvla({ weights: 'openvla/openvla-7b', revision: '31f090d' }),
  data: lerobotDataset({ repo: 'lerobot/libero_spatial_image' }),
  cameras: { primary: 'observation.images.image' },
  augment: imageAugmentation({ crop: 0.9, brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
  hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
  modules: {
    vision: {
      adapt: lora({ rank: 32, alpha: 16, targets: ['qkv', 'proj', 'q', 'kv', 'fc1', 'fc2'] }),
      dtype: 'bf16',
    },
    projector: { adapt: lora({ rank: 32, alpha: 16 }), dtype: 'bf16' },
    language: {
      adapt: lora({
        rank: 32,
        alpha: 16,
        targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj', 'lm_head'],
      }),
      dtype: 'bf16',
    },
  },
  parallel: ddp(),
  training: {
    updates: 50_000,
    globalBatch: 128,
    microBatch: 16,
    lr: 5e-4,
    weightDecay: 0.01,
    optimizer: adamw({ betas: [0.9, 0.999], eps: 1e-8 }),
    schedule: constant(),
    clip: 'none',
    seed: 7,
  },
  checkpoint: { every: 5_000 },
  track: [wandb({ project: 'openvla' })],
  export: [hf({ dtype: 'bf16' })],
  launch: [torchrun()],
})
