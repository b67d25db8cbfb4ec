import { defineRule } from '../rule.ts'

export const holdoutNeverScored = defineRule({
  id: 'VLA207',
  name: 'holdout-never-scored',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Held-out episodes are scored at least once before the run ends.',
  why: 'The episodes are kept out of training and never looked at: they are lost for nothing.',
  fix: 'Score them more often, or do not hold them out.',
  suppress: { allowed: true, when: 'The episodes are held out for an evaluation of your own, outside of this run.' },
  sources: [{ title: 'generated runtime', at: 'templates/runtime/vla_runtime/data.py', locator: 'holdout_loss' }],
  messages: {
    never: 'Episodes are held out, but a loss on them every {every} updates never comes in a run of {updates}.',
  },
  valid: [
    {
      caption: 'Every 100 of 1,000 updates.',
      code: `data: lerobotDataset({ root: 'data/reach', holdout: '5%' }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 100 },`,
    },
  ],
  invalid: [
    {
      caption: 'Every 5,000 of 1,000 updates.',
      code: `data: lerobotDataset({ root: 'data/reach', holdout: '5%' }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 5_000 },`,
    },
  ],
  check({ plan, path, known, report }) {
    const { updates, validateEvery } = plan.training
    if (validateEvery > 0 && validateEvery <= updates) return
    const holding = plan.datasets.findIndex((dataset) => known(dataset.holdout).length > 0)
    if (holding < 0) return
    const at = ['training', 'validateEvery']
    report({
      message: 'never',
      at,
      data: { every: validateEvery, updates },
      related: [{ at: ['datasets', holding, 'holdout'], note: 'episodes are held out here' }],
      fixes: [{ label: "Score them every '5%'", kind: 'safe', edits: [{ kind: 'set', path: path(at), value: '5%' }] }],
    })
  },
})
