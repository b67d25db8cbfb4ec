import { BYTES } from '../memory.ts'
import { defineRule } from '../rule.ts'

export const exportWiderThanTrained = defineRule({
  id: 'VLA707',
  name: 'export-wider-than-trained',
  area: 'outputs',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A package is in no wider dtype than the weights that go into it.',
  why: 'Widening adds zeros: the files and the memory of the robot double, and the policy acts the same.',
  fix: 'Use the widest dtype in which a module is stored, or a narrower one.',
  suppress: { allowed: true, when: 'The program that loads the package reads this dtype alone.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/pack/checkpoint.py',
      locator: 'Packable.exported',
    },
  ],
  messages: { wider: 'The package is in {dtype}, and nothing in it was stored in more than {widest}.' },
  valid: [{ caption: 'The masters, as they are.', code: `export: [hf({ dtype: 'fp32' })],` }],
  invalid: [{ caption: 'Twice the size.', code: `export: [hf({ dtype: 'fp64' })],` }],
  check({ plan, path, report }) {
    const stored = plan.modules.map((module) =>
      module.adapt === null ? module.storage : BYTES[module.storage] < BYTES.fp32 ? 'fp32' : module.storage,
    )
    const widest = stored.reduce<(typeof stored)[number] | undefined>(
      (best, dtype) => (best === undefined || BYTES[dtype] > BYTES[best] ? dtype : best),
      undefined,
    )
    if (widest === undefined) return
    plan.exports.forEach(({ dtype }, index) => {
      if (BYTES[dtype] <= BYTES[widest]) return
      const at = ['exports', index, 'dtype']
      report({
        message: 'wider',
        at,
        data: { dtype, widest },
        fixes: [{ label: `Use '${widest}'`, kind: 'safe', edits: [{ kind: 'set', path: path(at), value: widest }] }],
      })
    })
  },
})
