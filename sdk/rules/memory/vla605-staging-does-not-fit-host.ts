import { gibibytes } from '../facts.ts'
import { stateBytes } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const stagingDoesNotFitHost = defineRule({
  id: 'VLA605',
  name: 'staging-does-not-fit-host',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: "A checkpoint fits into the host's memory while it is written.",
  why: 'Every process copies its part of weights and moments into host memory and trains on while they are written. Where the copies of a node do not fit, the first checkpoint ends the run, after the time until then has been paid for.',
  fix: 'Use fewer GPUs per node, shard with fsdp2(), adapt with lora, or correct `hostMemory`.',
  suppress: { allowed: false, because: 'The failure is certain, at the first checkpoint.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/checkpoints.py',
      locator: 'DefaultStager: one copy per save',
    },
    { title: 'MOVA pull request 68', at: 'https://github.com/OpenMOSS/MOVA/pull/68' },
  ],
  messages: { large: 'A checkpoint is staged in {need} of host memory per node; hostMemory is {have}.' },
  valid: [
    {
      caption: 'Half a terabyte.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8, hostMemory: gib(512) }),
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  invalid: [
    {
      caption: 'A small host for eight large GPUs.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8, hostMemory: gib(64) }),
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  check({ plan, known, report }) {
    const { hardware, parallel } = plan
    if (hardware.kind !== 'gpus' || hardware.hostMemoryBytes === null) return
    const have = hardware.hostMemoryBytes
    if (have < 2 ** 30) return // in another unit: VLA820
    const { weights, moments } = stateBytes(plan, known)
    const own = parallel.kind === 'fsdp2' ? (weights + moments) / parallel.world : weights + moments
    const need = own * hardware.perNode
    if (need <= have) return
    report({
      message: 'large',
      at: ['hardware', 'hostMemoryBytes'],
      data: { need: gibibytes(need), have: gibibytes(have) },
      related: [{ at: ['hardware', 'perNode'], note: `${String(hardware.perNode)} processes per node` }],
      fix:
        parallel.kind === 'ddp'
          ? `Under ddp every process stages the whole state. Sharded with fsdp2() it is ${gibibytes(need / parallel.world)} per node.`
          : `Give each node at least ${gibibytes(need)}, spread the run over more nodes, or adapt with lora.`,
    })
  },
})
