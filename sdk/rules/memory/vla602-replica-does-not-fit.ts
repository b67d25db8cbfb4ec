import { gibibytes } from '../facts.ts'
import { stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const replicaDoesNotFit = defineRule({
  id: 'VLA602',
  name: 'replica-does-not-fit',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: 'Under ddp the whole training state fits into each GPU.',
  why: 'DDP shards nothing: every GPU holds all weights, gradients and moments, however many there are.',
  fix: 'Use fsdp2(), which shards them.',
  suppress: { allowed: false, because: 'The failure is certain: this is arithmetic, not a forecast.' },
  sources: [
    {
      title: 'OpenVLA-OFT issue 4',
      at: 'https://github.com/moojink/openvla-oft/issues/4',
      locator: 'eight RTX 4090 do not help under DDP',
    },
    {
      title: 'Rajbhandari et al. 2019, ZeRO',
      at: 'https://arxiv.org/abs/1910.02054',
      locator: 'section 3.1: data parallelism replicates all model states',
    },
  ],
  messages: { large: 'Under ddp each GPU holds {need} of weights, gradients and optimizer state; {gpu} has {have}.' },
  valid: [
    {
      caption: 'Adapters on a frozen base.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 2 }),
modules: { vision: { adapt: lora({ rank: 32 }) }, projector: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 32, microBatch: 16, lr: 5e-4 },
parallel: ddp(),`,
    },
  ],
  invalid: [
    {
      caption: 'Full fine-tuning, replicated.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('H100-SXM-80GB', { perNode: 8 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 8 },\nparallel: ddp(),`,
    },
  ],
  check({ plan, known, report }) {
    const { hardware, parallel } = plan
    if (hardware.kind !== 'gpus' || parallel.kind !== 'ddp') return
    const memory = known(hardware.memoryBytes)
    const { weights, gradients, moments } = stateBytes(plan, known)
    const total = weights + gradients + moments
    if (total <= memory) return
    const sharded = total / parallel.world
    report({
      message: 'large',
      at: ['parallel'],
      path: ['parallel'],
      data: { need: gibibytes(total), gpu: hardware.gpu, have: gibibytes(memory) },
      fix:
        sharded <= memory
          ? `Use fsdp2(): sharded over ${String(parallel.world)} GPUs it is ${gibibytes(sharded)} each.`
          : `Even sharded by fsdp2() it would be ${gibibytes(sharded)} each: use more GPUs, or adapt with lora.`,
      related: [{ at: ['hardware', 'gpu'], note: 'the GPU' }],
      fixes:
        sharded <= memory
          ? [
              {
                label: 'Use fsdp2()',
                kind: 'safe',
                edits: [{ kind: 'set', path: ['parallel'], value: { kind: 'fsdp2' } }],
              },
            ]
          : [],
    })
  },
})
