import { gibibytes } from '../facts.ts'
import { BYTES } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const packingDoesNotFitHost = defineRule({
  id: 'VLA606',
  name: 'packing-does-not-fit-host',
  area: 'memory',
  severity: 'error',
  since: '0.1.0',
  summary: "The whole model fits into the host's memory when it is packed.",
  why: 'pack.py reads a checkpoint whole, merges adapters, and makes a copy in the dtype of the package. On a host that has less, it is killed after the training has been paid for.',
  fix: 'Pack on a machine with more memory, or in the dtype that the weights rest in.',
  suppress: { allowed: true, when: 'Packages are made on another machine.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/pack/checkpoint.py',
      locator: 'open_checkpoint, Packable.exported',
    },
    {
      title: 'odyssey issue 5',
      at: 'https://github.com/lovellai-dev/odyssey/issues/5',
      locator: 'a merge needs a second copy of the base',
    },
  ],
  messages: {
    large:
      'Packing takes {need} of host memory: the model as it rests ({stored}) and in {dtype} ({packed}); hostMemory is {have}.',
  },
  valid: [
    {
      caption: 'In the dtype that most of it rests in.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { hostMemory: gib(64) }),
modules: { vision: { adapt: lora({ rank: 32 }) }, projector: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },
export: [hf({ dtype: 'bf16' })],`,
    },
  ],
  invalid: [
    {
      caption: 'Twice the size of the base.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { hostMemory: gib(24) }),
modules: { vision: { adapt: lora({ rank: 32 }) }, projector: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },
export: [hf()],`,
    },
  ],
  check({ plan, known, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus' || hardware.hostMemoryBytes === null || hardware.hostMemoryBytes < 2 ** 30) return
    const have = hardware.hostMemoryBytes
    const stored = plan.modules.reduce((sum, module) => sum + known(module.count) * BYTES[module.storage], 0)
    plan.exports.forEach(({ dtype }, index) => {
      // What has the package's dtype already is not copied.
      const packed = plan.modules.reduce(
        (sum, module) => sum + (module.storage === dtype ? 0 : known(module.count) * BYTES[dtype]),
        0,
      )
      const need = stored + packed
      if (need <= have) return
      report({
        message: 'large',
        at: ['exports', index, 'dtype'],
        path: ['export', index],
        data: {
          need: gibibytes(need),
          stored: gibibytes(stored),
          dtype,
          packed: gibibytes(packed),
          have: gibibytes(have),
        },
        related: [{ at: ['hardware', 'hostMemoryBytes'], note: 'the memory of a node' }],
      })
    })
  },
})
