/**
 * pi0.5 on two consumer cards: the vision tower frozen, adapters on the language model, the expert in full.
 *
 * No published run. That adapters on the language model fit where full fine-tuning does not (22.5 GB and 70 GB) is in the README of
 * github.com/Physical-Intelligence/openpi, whose adapters have rank 16 there. What is not said comes from LeRobot's own recipe
 * (lerobot/policies/pi05/configuration_pi05.py): `vla plan` shows it.
 */
import { defineVLAPipeline, gib, gpus, lerobot, lerobotDataset, lora, pi05 } from 'vla-pipeline'

export default defineVLAPipeline({
  name: 'pi05-folding',
  model: pi05({ weights: 'lerobot/pi05_base', cameras: ['base_0_rgb', 'left_wrist_0_rgb'] }),
  data: lerobotDataset({ repo: 'your-name/folding' }),
  cameras: { base_0_rgb: 'observation.images.top', left_wrist_0_rgb: 'observation.images.wrist' },
  hardware: gpus('RTX-4090', { perNode: 2, hostMemory: gib(128) }),
  modules: {
    vision: { freeze: 'always' },
    language: { lr: 5e-5, adapt: lora({ rank: 32 }), recompute: 'full' },
    heads: { dtype: 'fp32' },
  },
  training: { updates: 30_000, globalBatch: 32, microBatch: 4, lr: 1e-4 },
  export: [lerobot()],
})
