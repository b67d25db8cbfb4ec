import { defineRule } from '../rule.ts'

export const tokensSeeAhead = defineRule({
  id: 'VLA516',
  name: 'tokens-see-ahead',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: "Action tokens are decoded under a 'causal' or 'prefix' mask.",
  why: 'Under a full mask each action token sees the ones that it has to predict: the loss falls to zero and the policy, which has to do without, emits noise.',
  fix: "Use mask: 'causal' or 'prefix', or a decoder that works in parallel (regression, flowMatching).",
  suppress: { allowed: false, because: 'The failure is silent: the training loss looks excellent.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/composed.py',
      locator: 'VLAConfig.__post_init__',
    },
    {
      title: 'Vaswani et al. 2017, Attention Is All You Need',
      at: 'https://arxiv.org/abs/1706.03762',
      locator: 'section 3.2.3: masking preserves the auto-regressive property',
    },
  ],
  messages: { full: "Action tokens cannot be decoded under mask 'full': each would see its successors." },
  valid: [
    {
      caption: 'Prefix: the observation sees all of itself.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), mask: 'prefix', promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'Full.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), mask: 'full', promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, report }) {
    const { model } = plan
    if (model.family === 'lerobot' || model.action.decoder !== 'tokens' || model.mask !== 'full') return
    const at = ['model', 'mask']
    report({
      message: 'full',
      at,
      data: {},
      related: [{ at: ['model', 'action', 'decoder'], path: ['model', 'action'], note: 'action tokens' }],
      fixes: [{ label: "Use mask: 'prefix'", kind: 'safe', edits: [{ kind: 'set', path: path(at), value: 'prefix' }] }],
    })
  },
})
