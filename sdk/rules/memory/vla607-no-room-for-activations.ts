import { gibibytes } from '../facts.ts'
import { stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'

/** Share of a GPU above which the state leaves next to nothing. */
const FULL = 0.9

export const noRoomForActivations = defineRule({
  id: 'VLA607',
  name: 'no-room-for-activations',
  area: 'memory',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Weights, gradients and optimizer state leave a tenth of the GPU for everything else.',
  why: 'Activations, gathered layers, the collectives and CUDA itself have to share what is left, and the driver keeps some of it: the first update runs out of memory, or the first long one does.',
  fix: 'Use more GPUs, adapt with lora, or freeze modules.',
  suppress: { allowed: true, when: 'You have seen this run fit.' },
  sources: [
    {
      title: 'torchtitan pull request 31',
      at: 'https://github.com/NousResearch/torchtitan/pull/31',
      locator: 'a run at 98 % of the memory fails at its first checkpoint',
    },
    {
      title: 'Rajbhandari et al. 2020, ZeRO',
      at: 'https://arxiv.org/abs/1910.02054',
      locator: 'section 3: model states and residual states',
    },
  ],
  messages: { tight: 'Weights, gradients and optimizer state take {need} of the {have} of {gpu}: {left} are left.' },
  valid: [
    {
      caption: 'OpenVLA over four cards.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-40GB', { perNode: 4 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  invalid: [
    {
      caption: 'The same over three.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-40GB', { perNode: 3 }),
training: { updates: 1_000, globalBatch: 48, microBatch: 8 },`,
    },
  ],
  check({ plan, known, report }) {
    const { hardware, parallel } = plan
    if (hardware.kind !== 'gpus') return
    const memory = known(hardware.memoryBytes)
    const { weights, gradients, moments } = stateBytes(plan, known)
    const total = weights + gradients + moments
    const need = parallel.kind === 'fsdp2' ? total / parallel.world : total
    if (need > memory || need <= FULL * memory) return // above it: VLA601 and VLA602
    const enough = Math.floor(total / (FULL * memory)) + 1
    report({
      message: 'tight',
      at: ['hardware'],
      path: ['hardware'],
      data: { need: gibibytes(need), have: gibibytes(memory), gpu: hardware.gpu, left: gibibytes(memory - need) },
      fix:
        parallel.kind === 'fsdp2'
          ? `Over at least ${String(enough)} such GPUs a tenth is left; or adapt with lora, or freeze modules.`
          : `Shard with fsdp2(): ${gibibytes(total / parallel.world)} per GPU; or adapt with lora, or freeze modules.`,
    })
  },
})
