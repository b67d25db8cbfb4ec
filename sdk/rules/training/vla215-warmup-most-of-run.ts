import { defineRule } from '../rule.ts'

export const warmupMostOfRun = defineRule({
  id: 'VLA215',
  name: 'warmup-most-of-run',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The warm-up is the smaller part of the run.',
  why: 'Until the warm-up ends no update is made at the declared learning rate: a run that is mostly warm-up trains at half of it. The numbers usually come from a recipe with a hundred times as many updates.',
  fix: "Write the warm-up as a share of the run: '3%'.",
  suppress: { allowed: true, when: 'The run is the beginning of a longer one, which goes on from its checkpoint.' },
  sources: [
    {
      title: 'Qwen issue 672',
      at: 'https://github.com/QwenLM/Qwen/issues/672',
      locator: 'a short run logs a learning rate of nearly zero',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/optim.py', locator: '_warm' },
  ],
  messages: { most: 'The warm-up takes {warmup} of {updates} updates.' },
  valid: [
    {
      caption: 'A tenth.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: 100 }) },`,
    },
  ],
  invalid: [
    {
      caption: 'The thousand updates of another recipe.',
      code: `training: { updates: 1_500, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: 1_000 }) },`,
    },
  ],
  check({ plan, path, report }) {
    const { schedule, updates } = plan.training
    if (schedule.warmup <= updates / 2 || schedule.warmup >= updates) return // as long as the run: VLA202
    const at = ['training', 'schedule', 'warmup']
    report({
      message: 'most',
      at,
      data: { warmup: schedule.warmup, updates },
      related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      fixes: [
        { label: "Set warmup to '3%'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: '3%' }] },
      ],
    })
  },
})
