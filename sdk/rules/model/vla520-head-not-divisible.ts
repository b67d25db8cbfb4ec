import { defineRule } from '../rule.ts'

export const headNotDivisible = defineRule({
  id: 'VLA520',
  name: 'head-not-divisible',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'The width of a flow-matching head is even and, but for joint attention, divides by its attention heads.',
  why: "Attention splits the width over its heads (a joint expert projects to the trunk's instead), and the time embedding is half sines and half cosines: the model cannot be built.",
  fix: 'Use a width that is a multiple of the heads.',
  suppress: { allowed: false, because: 'The failure is certain: the model cannot be built.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/decoders.py',
      locator: 'FlowHead.__init__; expert.py, JointExpert.__init__',
    },
  ],
  messages: {
    heads: 'A width of {hidden} does not divide by {heads} attention heads.',
    odd: 'A width of {hidden} is odd.',
  },
  valid: [
    {
      caption: '128 by 4.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: flowMatching({ layers: 2, hidden: 128, heads: 4, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'A joint expert of 70 beside a trunk with 4 heads.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: flowMatching({ attention: 'joint', hidden: 70, chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: '128 by 3.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: flowMatching({ layers: 2, hidden: 128, heads: 3, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'An odd width.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: flowMatching({ layers: 2, hidden: 99, heads: 3, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'An odd width of a joint expert.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: flowMatching({ attention: 'joint', hidden: 99, chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, report }) {
    if (plan.model.family === 'lerobot') return
    const { action } = plan.model
    if (action.decoder !== 'flowMatching') return
    const { hidden } = action
    if (action.attention === 'cross' && hidden % action.heads !== 0) {
      const { heads } = action
      const step = heads % 2 === 0 ? heads : 2 * heads
      report({
        message: 'heads',
        at: ['model', 'action', 'hidden'],
        data: { hidden, heads },
        fix: `Use a width of ${String(Math.max(step, Math.round(hidden / step) * step))}, or another number of heads.`,
        related: [{ at: ['model', 'action', 'heads'], note: 'the heads' }],
      })
    } else if (hidden % 2 !== 0)
      report({
        message: 'odd',
        at: ['model', 'action', 'hidden'],
        data: { hidden },
        fix: `Use a width of ${String(hidden + 1)}.`,
      })
  },
})
