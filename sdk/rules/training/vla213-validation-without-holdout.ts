import { defineRule } from '../rule.ts'

export const validationWithoutHoldout = defineRule({
  id: 'VLA213',
  name: 'validation-without-holdout',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: '`validateEvery` needs held-out episodes.',
  why: 'There is nothing to score: the option has no effect, and no held-out loss appears among the metrics.',
  fix: "Hold episodes out (holdout: '5%'), or remove `validateEvery`.",
  suppress: { allowed: true, when: 'The line is shared by several pipelines, of which some hold episodes out.' },
  sources: [{ title: 'generated runtime', at: 'templates/runtime/vla_runtime/data.py', locator: 'Samples.holdout' }],
  messages: { nothing: '`validateEvery` is set, but no dataset holds episodes out.' },
  valid: [
    {
      caption: 'Both.',
      code: `data: lerobotDataset({ root: 'data/reach', holdout: '5%' }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 100 },`,
    },
  ],
  invalid: [
    {
      caption: 'Nothing held out.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 100 },`,
    },
  ],
  check({ plan, origin, known, report }) {
    const path = ['training', 'validateEvery']
    if (origin(path) === 'default' || plan.datasets.some((dataset) => known(dataset.holdout).length > 0)) return
    report({
      message: 'nothing',
      at: path,
      on: 'key',
      data: {},
      related: plan.datasets.map((dataset, index) => ({
        at: ['datasets', index],
        note: `'${dataset.name}' holds nothing out`,
      })),
      fixes: [{ label: 'Remove `validateEvery`', kind: 'safe', edits: [{ kind: 'remove', path }] }],
    })
  },
})
