import { rate } from '../facts.ts'
import { defineRule } from '../rule.ts'

/** Square roots of second moments of large models lie around 1e-5 to 1e-3 after clipping to a norm of 1. */
const LIMIT = 1e-3

export const epsilonDrownsMoments = defineRule({
  id: 'VLA218',
  name: 'epsilon-drowns-moments',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: "AdamW's epsilon is small beside the gradients that it divides by.",
  why: 'A step is mean / (root of the mean square + epsilon). With an epsilon far above the gradients every step is smaller than the learning rate says, by a different factor for each parameter: AdamW becomes gradient descent with a tiny rate.',
  fix: 'Leave `eps` out (1e-8), or use 1e-6 where bf16 gradients ask for it.',
  suppress: { allowed: true, when: 'The recipe that you follow was tuned with this value.' },
  sources: [
    {
      title: 'Kingma and Ba 2015, Adam',
      at: 'https://arxiv.org/abs/1412.6980',
      locator: 'algorithm 1: epsilon = 1e-8',
    },
  ],
  messages: {
    large: 'An epsilon of {eps} is above the gradients of a large model, which are clipped to a norm of about 1.',
  },
  valid: [
    {
      caption: 'A hundred times the default.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, optimizer: adamw({ eps: 1e-6 }) },`,
    },
  ],
  invalid: [
    {
      caption: 'The exponent without its sign, nearly.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, optimizer: adamw({ eps: 1e-2 }) },`,
    },
  ],
  check({ plan, path, report }) {
    const { eps } = plan.training.optimizer
    if (eps < LIMIT) return
    const at = ['training', 'optimizer', 'eps']
    report({
      message: 'large',
      at,
      data: { eps: rate(eps) },
      fixes: [{ label: 'Use the default (1e-8)', kind: 'suggestion', edits: [{ kind: 'remove', path: path(at) }] }],
    })
  },
})
