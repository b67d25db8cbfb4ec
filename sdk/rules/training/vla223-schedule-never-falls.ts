import { defineRule } from '../rule.ts'

export const scheduleNeverFalls = defineRule({
  id: 'VLA223',
  name: 'schedule-never-falls',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A schedule that falls has a floor below its peak.',
  why: 'With a floor of 1 a cosine or a straight line runs level: the learning rate is constant, and the plan reads as if it decayed.',
  fix: 'Use constant(), or a floor below 1.',
  suppress: { allowed: true, when: 'The line is shared by several pipelines, of which some decay.' },
  sources: [
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/optim.py', locator: 'cosine, linear: floor' },
  ],
  messages: { level: 'With a floor of 1 the schedule stays at its peak.' },
  valid: [
    {
      caption: 'Constant, in words.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: constant({ warmup: 30 }) },`,
    },
  ],
  invalid: [
    {
      caption: 'Level.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: 30, floor: 1 }) },`,
    },
  ],
  check({ plan, path, report }) {
    const { schedule } = plan.training
    if (schedule.kind === 'constant' || schedule.floor < 1) return
    const at = ['training', 'schedule', 'floor']
    report({
      message: 'level',
      at,
      data: {},
      fixes: [{ label: 'Remove the floor', kind: 'suggestion', edits: [{ kind: 'remove', path: path(at) }] }],
    })
  },
})
