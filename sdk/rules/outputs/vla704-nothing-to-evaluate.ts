import { defineRule } from '../rule.ts'

export const nothingToEvaluate = defineRule({
  id: 'VLA704',
  name: 'nothing-to-evaluate',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'What is evaluated is a package, so one is exported.',
  why: 'evaluate.py rolls out the packaged policy, which is what a robot would load. Without an export there is none.',
  fix: 'Add export: [lerobot()] (or hf()).',
  suppress: { allowed: false, because: 'The failure is certain: evaluate.py finds no package.' },
  sources: [{ title: 'generated project', at: 'sdk/emit/python/evaluate.ts', locator: 'policy' }],
  messages: { none: 'A simulator is declared, but no package is exported that it could roll out.' },
  valid: [
    {
      caption: 'With a package.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [hf()],`,
    },
  ],
  invalid: [
    { caption: 'Without.', code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),` },
  ],
  check({ plan, report }) {
    if (plan.evaluate === null || plan.exports.length > 0) return
    report({
      message: 'none',
      at: ['evaluate'],
      path: ['evaluate'],
      on: 'key',
      data: {},
      related: [],
      fixes: [
        {
          label: 'Export a LeRobot package',
          kind: 'suggestion',
          edits: [{ kind: 'set', path: ['export'], value: [{ kind: 'lerobot' }] }],
        },
      ],
    })
  },
})
