import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const adaptersNeverTrain = defineRule({
  id: 'VLA403',
  name: 'adapters-never-train',
  area: 'adapters',
  severity: 'error',
  since: '0.1.0',
  summary: 'Adapters train in some phase of the run.',
  why: 'With adapters, `freeze` speaks of the adapters; the base is frozen anyway. Frozen from start to end they stay at zero and change nothing.',
  fix: "Remove freeze: 'always' to train the adapters, or remove `adapt` to freeze the module.",
  suppress: { allowed: false, because: 'The failure is silent: the package would equal its base.' },
  sources: [
    {
      title: 'Hu et al. 2021, LoRA',
      at: 'https://arxiv.org/abs/2106.09685',
      locator: 'section 4.1: B starts at zero, so an untrained adapter adds nothing',
    },
  ],
  messages: { never: "The adapters of '{module}' never train." },
  valid: [
    {
      caption: 'The base is frozen, the adapters train.',
      code: `modules: { language: { adapt: lora({ rank: 8 }) } },`,
    },
  ],
  invalid: [
    { caption: 'Frozen adapters.', code: `modules: { language: { adapt: lora({ rank: 8 }), freeze: 'always' } },` },
  ],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      if (module.adapt === null || everTrains(module, plan.training.updates)) return
      if (module.freeze.some((phase) => phase.trains !== 'none')) return // a phase that never comes has a finding of its own
      const path = ['modules', module.name, 'freeze']
      report({
        message: 'never',
        at: ['modules', index, 'freeze'],
        path,
        data: { module: module.name },
        related: [{ at: ['modules', index, 'adapt'], note: 'the adapters' }],
        fixes: [{ label: 'Train the adapters', kind: 'suggestion', edits: [{ kind: 'remove', path }] }],
      })
    })
  },
})
