import { everTrains, gibibytes } from '../facts.ts'
import { BYTES } from '../memory.ts'
import { defineRule } from '../rule.ts'

/** Below this much the memory does not matter. */
const LARGE = 2 ** 28

export const frozenStoredWide = defineRule({
  id: 'VLA107',
  name: 'frozen-stored-wide',
  area: 'precision',
  severity: 'warning',
  since: '0.1.0',
  summary: 'What never trains rests in no wider dtype than it computes in.',
  why: 'Frozen parameters need no masters: they are rounded to the compute dtype at every use, so that the wider copy changes no result and takes memory on every GPU and in every checkpoint.',
  fix: 'Set `storage` to the compute dtype.',
  suppress: { allowed: true, when: 'A later run trains the module from the checkpoint of this one.' },
  sources: [
    {
      title: 'LeRobot issue 3259',
      at: 'https://github.com/huggingface/lerobot/issues/3259',
      locator: 'a whole vision tower was kept in fp32',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/sharding.py',
      locator: 'storage and compute dtype of a unit',
    },
  ],
  messages: {
    wide: "'{module}' never trains and computes in {dtype}, but rests in {storage}: {more} more than it needs.",
  },
  valid: [
    {
      caption: 'As it is published.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
modules: { language: { freeze: 'always' } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  invalid: [
    {
      caption: 'Frozen in fp32.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
modules: { language: { freeze: 'always', storage: 'fp32' } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  check({ plan, path, known, each, report }) {
    each(plan.modules, (module, index) => {
      if (module.adapt === null && everTrains(module, plan.training.updates)) return
      const more = (BYTES[module.storage] - BYTES[module.dtype]) * known(module.count)
      if (more < LARGE) return
      const at = ['modules', index, 'storage']
      report({
        message: 'wide',
        at,
        data: { module: module.name, dtype: module.dtype, storage: module.storage, more: gibibytes(more) },
        related: [{ at: ['modules', index, 'freeze'], note: 'when it trains' }],
        fixes: [
          {
            label: `Store it in '${module.dtype}'`,
            kind: 'suggestion',
            edits: [{ kind: 'set', path: path(at), value: module.dtype }],
          },
        ],
      })
    })
  },
})
