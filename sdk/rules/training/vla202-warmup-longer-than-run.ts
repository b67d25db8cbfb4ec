import { defineRule } from '../rule.ts'

export const warmupLongerThanRun = defineRule({
  id: 'VLA202',
  name: 'warmup-longer-than-run',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'The warm-up ends before the run does.',
  why: 'The learning rate never reaches what was declared and never decays: the run trains at a fraction of it without a sign.',
  fix: 'Shorten the warm-up; 1 to 5 % of the run is usual.',
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'transformers 5.5.4',
      at: 'transformers/optimization.py',
      locator: '_get_cosine_schedule_with_warmup_lr_lambda: current_step / num_warmup_steps while below it',
    },
  ],
  messages: { long: 'The warm-up takes {warmup} of {updates} updates.' },
  valid: [
    {
      caption: '3 % of the run.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: '3%' }) },`,
    },
  ],
  invalid: [
    {
      caption: '2,000 of 1,000 updates.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: 2_000 }) },`,
    },
  ],
  check({ plan, path, report }) {
    const { schedule, updates } = plan.training
    if (schedule.warmup === 0 || schedule.warmup < updates) return
    const at = ['training', 'schedule', 'warmup']
    report({
      message: 'long',
      at,
      path: ['training', 'schedule', 'warmup'],
      data: { warmup: schedule.warmup, updates },
      related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      fixes: [
        { label: "Set warmup to '3%'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: '3%' }] },
      ],
    })
  },
})
