import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const zeroLearningRate = defineRule({
  id: 'VLA214',
  name: 'zero-learning-rate',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'A module that trains has a learning rate above zero.',
  why: 'Gradients, optimizer state and their communication are paid for in full, and no weight ever changes.',
  fix: "Say freeze: 'always' to freeze a module, or give it a learning rate.",
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'torch 2.11, AdamW',
      at: 'https://docs.pytorch.org/docs/2.11/generated/torch.optim.AdamW.html',
      locator: 'every term of the update, weight decay included, is multiplied by lr',
    },
  ],
  messages: { zero: "The module '{module}' trains with a learning rate of 0." },
  valid: [{ caption: 'Frozen in words.', code: `modules: { vision: { freeze: 'always' } },` }],
  invalid: [{ caption: 'Frozen by its learning rate.', code: `modules: { vision: { lr: 0 } },` }],
  check({ plan, path, known, each, report }) {
    each(plan.modules, (module, index) => {
      if (known(module.lr) !== 0 || !everTrains(module, plan.training.updates)) return
      const isOwn = path(['modules', index, 'lr'])[0] === 'modules'
      report({
        message: 'zero',
        at: ['modules', index, 'lr'],
        data: { module: module.name },
        fixes: [
          {
            label: "Freeze the module ('always')",
            kind: 'suggestion',
            edits: [
              { kind: 'set', path: ['modules', module.name, 'freeze'], value: 'always' },
              // A rate of `training` stays for the other modules.
              ...(isOwn ? [{ kind: 'remove' as const, path: ['modules', module.name, 'lr'] }] : []),
            ],
          },
        ],
      })
    })
  },
})
