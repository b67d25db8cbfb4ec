import { defineRule } from '../rule.ts'

export const betasSwapped = defineRule({
  id: 'VLA217',
  name: 'betas-swapped',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: "AdamW's first moment forgets faster than its second: beta1 is below the square root of beta2.",
  why: 'Otherwise the step is a long mean of gradients over a short mean of their squares: one large gradient is followed by steps many times the learning rate. The two numbers are usually in the wrong order.',
  fix: 'Write the smaller one first: betas: [0.9, 0.999].',
  suppress: { allowed: true, when: 'You study the optimizer.' },
  sources: [
    {
      title: 'Reddi et al. 2018, On the Convergence of Adam and Beyond',
      at: 'https://arxiv.org/abs/1904.09237',
      locator: 'beta1 < sqrt(beta2) is what convergence is shown for',
    },
  ],
  messages: {
    order: 'With betas [{first}, {second}], the mean of the gradients is longer than that of their squares.',
  },
  valid: [
    {
      caption: 'As the published recipes.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, optimizer: adamw({ betas: [0.9, 0.95] }) },`,
    },
  ],
  invalid: [
    {
      caption: 'In the wrong order.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, optimizer: adamw({ betas: [0.999, 0.9] }) },`,
    },
  ],
  check({ plan, path, report }) {
    const [first, second] = plan.training.optimizer.betas
    if (first < Math.sqrt(second)) return
    const at = ['training', 'optimizer', 'betas']
    report({
      message: 'order',
      at,
      data: { first, second },
      fixes:
        second < Math.sqrt(first)
          ? [
              {
                label: `Write [${String(second)}, ${String(first)}]`,
                kind: 'suggestion',
                edits: [{ kind: 'set', path: path(at), value: [second, first] }],
              },
            ]
          : [],
    })
  },
})
