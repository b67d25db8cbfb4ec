import { defineRule } from '../rule.ts'

export const divergenceNeverStops = defineRule({
  id: 'VLA226',
  name: 'divergence-never-stops',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A run that has diverged stops well before its end.',
  why: 'An update with a loss or gradient that is not finite is skipped and counted. Where half of the run may be skipped, a run whose weights are lost goes on to the end and looks as if it were training.',
  fix: 'Leave `skipNonFinite` out (10), or allow a handful.',
  suppress: { allowed: true, when: 'The run is a test of what makes it diverge.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/run.py',
      locator: 'all_finite: skipped updates are counted',
    },
  ],
  messages: { many: '{skips} of {updates} updates may be skipped before the run stops.' },
  valid: [
    {
      caption: 'A handful.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, skipNonFinite: 5 },`,
    },
  ],
  invalid: [
    {
      caption: 'All of them.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, skipNonFinite: 1_000 },`,
    },
  ],
  check({ plan, path, declared, report }) {
    const { skipNonFinite: skips, updates } = plan.training
    const at = ['training', 'skipNonFinite']
    if (skips < updates / 2 || !declared(at)) return
    report({
      message: 'many',
      at,
      data: { skips, updates },
      related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      fixes: [{ label: 'Remove `skipNonFinite`', kind: 'safe', edits: [{ kind: 'remove', path: path(at) }] }],
    })
  },
})
