import { defineRule } from '../rule.ts'

export const exportTwice = defineRule({
  id: 'VLA701',
  name: 'export-twice',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'Each package format is exported once.',
  why: 'A package lies in a folder of its format: the second would be written over the first.',
  fix: 'Keep one of the two; another dtype can be packed later with pack.py from the same checkpoint.',
  suppress: { allowed: false, because: 'The failure is certain: one of the packages is lost.' },
  sources: [{ title: 'generated project', at: 'sdk/emit/python/pack.ts', locator: "arguments.out / 'hf'" }],
  messages: { twice: "The package '{kind}' is exported twice." },
  valid: [{ caption: 'Two formats.', code: `export: [hf({ dtype: 'bf16' }), lerobot()],` }],
  invalid: [{ caption: 'Two dtypes of one.', code: `export: [hf({ dtype: 'fp32' }), hf({ dtype: 'bf16' })],` }],
  check({ plan, report }) {
    plan.exports.forEach(({ kind }, index) => {
      const first = plan.exports.findIndex((other) => other.kind === kind)
      if (first === index) return
      report({
        message: 'twice',
        at: ['exports'],
        path: ['export', index],
        data: { kind },
        related: [{ at: ['exports'], path: ['export', first], note: 'the first' }],
        fixes: [
          { label: 'Remove the second', kind: 'suggestion', edits: [{ kind: 'remove', path: ['export', index] }] },
        ],
      })
    })
  },
})
