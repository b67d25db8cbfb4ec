import { defineRule } from '../rule.ts'

export const parallelDecodingUnderCausalMask = defineRule({
  id: 'VLA572',
  name: 'parallel-decoding-under-causal-mask',
  area: 'model',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Actions that are decoded at once see each other.',
  why: 'Regression predicts all actions of a chunk in one pass. Under a causal mask the slot of the first action sees nothing of the ones behind it, and images nothing of the instruction: OpenVLA-OFT evaluated under the causal mask of another transformers solved 60 % where it solves 98 %.',
  fix: "Leave `mask` out: regression takes 'full'.",
  suppress: { allowed: true, when: 'You compare masks.' },
  sources: [
    {
      title: 'OpenVLA-OFT issue 135',
      at: 'https://github.com/moojink/openvla-oft/issues/135',
      locator: 'a causal mask in the place of the bidirectional one',
    },
    {
      title: 'Kim et al. 2025, OpenVLA-OFT',
      at: 'https://arxiv.org/abs/2502.19645',
      locator: 'section IV-B: causal attention is replaced by bidirectional attention',
    },
  ],
  messages: {
    causal: "Regression decodes {chunk} actions at once, but mask 'causal' hides the later ones from the earlier.",
  },
  valid: [
    {
      caption: 'Every token sees every token.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), mask: 'full', promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'Causal.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), mask: 'causal', promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, report }) {
    const { model } = plan
    if (model.family === 'lerobot' || model.action.decoder !== 'regression' || model.mask !== 'causal') return
    const at = ['model', 'mask']
    report({
      message: 'causal',
      at,
      data: { chunk: model.action.chunk },
      related: [{ at: ['model', 'action', 'decoder'], path: ['model', 'action'], note: 'decoded at once' }],
      fixes: [{ label: "Use mask: 'full'", kind: 'safe', edits: [{ kind: 'set', path: path(at), value: 'full' }] }],
    })
  },
})
