import { defineRule } from '../rule.ts'
import { factorAt } from '../schedule.ts'

/** Share of the peak learning rate below which training a module is not worth its memory. */
const LEAST = 0.05

export const unfrozenAtNoRate = defineRule({
  id: 'VLA309',
  name: 'unfrozen-at-no-rate',
  area: 'freezing',
  severity: 'warning',
  since: '0.1.0',
  summary: 'When a module unfreezes, its learning rate is worth something.',
  why: 'Freeze schedules and learning rates share one clock. A module that unfreezes near the end of a schedule that falls to zero trains at next to nothing, and costs gradients, optimizer state and their communication from there on.',
  fix: 'Unfreeze it earlier, or give the schedule a floor.',
  suppress: { allowed: true, when: 'The last few updates are meant to be this gentle.' },
  sources: [
    {
      title: 'Loshchilov and Hutter 2017, SGDR',
      at: 'https://arxiv.org/abs/1608.03983',
      locator: 'equation 5: the cosine',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/optim.py', locator: 'cosine, linear' },
  ],
  messages: {
    faint:
      "From update {from} on, when more of '{module}' trains, the learning rate is {percent} % of its peak and falls.",
  },
  valid: [
    {
      caption: 'At three quarters a cosine has 15 % left.',
      code: `modules: { vision: { freeze: until('75%') } },
training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: '3%' }) },`,
    },
    { caption: 'A constant rate.', code: `modules: { vision: { freeze: until('95%') } },` },
  ],
  invalid: [
    {
      caption: 'The last tenth of a cosine.',
      code: `modules: { vision: { freeze: until('90%') } },
training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: '3%' }) },`,
    },
  ],
  check({ plan, each, path, report }) {
    const { training } = plan
    const { schedule, updates } = training
    if (schedule.kind === 'constant' || schedule.floor >= LEAST) return
    each(plan.modules, (module, index) => {
      module.freeze.forEach((phase, number) => {
        const before = module.freeze[number - 1]?.trains
        const grows = before !== undefined && phase.trains !== 'none' && before !== 'all' && before !== phase.trains
        if (!grows || phase.from >= updates || phase.from < schedule.warmup) return
        const factor = factorAt(training, phase.from)
        if (factor >= LEAST) return
        // Where a tenth is left.
        const share = (0.1 - schedule.floor) / (1 - schedule.floor)
        const progress = schedule.kind === 'cosine' ? Math.acos(2 * share - 1) / Math.PI : 1 - share
        const latest = Math.floor(schedule.warmup + progress * (updates - schedule.warmup))
        report({
          message: 'faint',
          at: ['modules', index, 'freeze'],
          path: path(['modules', index, 'freeze']),
          data: { from: phase.from, module: module.name, percent: String(Number((100 * factor).toPrecision(2))) },
          fix: `A tenth is left until update ${String(latest)}: unfreeze it before that, or give the schedule a floor (floor: 0.1).`,
          related: [{ at: ['training', 'schedule'], path: ['training', 'schedule'], note: 'the schedule' }],
        })
      })
    })
  },
})
