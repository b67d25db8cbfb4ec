import { gibibytes } from '../facts.ts'
import { stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const stateDoesNotFit = defineRule({
  id: 'VLA601',
  name: 'state-does-not-fit',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: 'Weights, gradients and optimizer state fit into the GPUs over which they are sharded.',
  why: 'AdamW in mixed precision holds 16 bytes per trained parameter (master 4, gradient 4, moments 8). Where these alone exceed the memory, the first update runs out of it; activations come on top.',
  fix: 'Use more GPUs, adapters (lora), or freeze modules.',
  suppress: { allowed: false, because: 'The failure is certain: this is arithmetic, not a forecast.' },
  sources: [
    {
      title: 'Rajbhandari et al. 2019, ZeRO',
      at: 'https://arxiv.org/abs/1910.02054',
      locator: 'section 3.1: 16 bytes per parameter',
    },
    {
      title: 'OpenVLA issue 277',
      at: 'https://github.com/openvla/openvla/issues/277',
      locator: 'out of memory in full fine-tuning',
    },
  ],
  messages: { large: 'Weights, gradients and optimizer state take {need} per GPU; {gpu} has {have}.' },
  valid: [
    {
      caption: 'Sharded over eight.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('H100-SXM-80GB', { perNode: 8 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
    {
      caption: 'Adapters on one.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB'),
modules: { vision: { adapt: lora({ rank: 32 }) }, projector: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 16, microBatch: 16, lr: 5e-4 },`,
    },
  ],
  invalid: [
    {
      caption: '7.5 billion parameters in full on two cards with 24 GiB.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('RTX-4090', { perNode: 2 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  check({ plan, known, report }) {
    const { hardware, parallel } = plan
    if (hardware.kind !== 'gpus' || parallel.kind !== 'fsdp2') return
    const memory = known(hardware.memoryBytes)
    const { weights, gradients, moments } = stateBytes(plan, known)
    const total = weights + gradients + moments
    if (total / parallel.world <= memory) return
    const fewest = Math.floor(total / memory) + 1
    report({
      message: 'large',
      at: ['hardware'],
      path: ['hardware'],
      data: { need: gibibytes(total / parallel.world), gpu: hardware.gpu, have: gibibytes(memory) },
      fix: `All of it takes ${gibibytes(total)}: at least ${String(fewest)} such GPUs, and more for activations; or adapt with lora, or freeze modules.`,
      related: plan.modules.map((module, index) => ({ at: ['modules', index], note: `'${module.name}'` })),
    })
  },
})
