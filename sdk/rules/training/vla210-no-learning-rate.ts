import { isKnown } from '../../plan/plan.ts'
import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const noLearningRate = defineRule({
  id: 'VLA210',
  name: 'no-learning-rate',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'Every module that trains has a learning rate, of its own or from `training.lr`.',
  why: 'A rate that nobody chose decides the result; a framework default is right for one model and one batch.',
  fix: 'Give the module an `lr`, or set `training.lr` for all that name none.',
  suppress: { allowed: false, because: 'Nothing can stand in for it.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: '_check_phases: a module that trains and has no learning rate is refused',
    },
  ],
  messages: { none: "The module '{module}' trains and has no learning rate." },
  valid: [
    { caption: 'One for all.', code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },` },
  ],
  invalid: [
    {
      caption: 'One is forgotten.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32 },\nmodules: { vision: { lr: 1e-4 }, projector: { lr: 1e-4 }, language: { lr: 1e-4 } },`,
    },
  ],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      if (
        isKnown(module.lr)
          ? module.lr !== null || !everTrains(module, plan.training.updates)
          : module.lr.because !== 'VLA210'
      )
        return
      report({
        message: 'none',
        at: ['modules', index],
        path: ['modules', module.name, 'lr'],
        data: { module: module.name },
        related: [{ at: ['training'], path: ['training', 'lr'], note: 'the default for all modules would stand here' }],
      })
    })
  },
})
