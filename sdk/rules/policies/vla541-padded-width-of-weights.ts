import { defineRule } from '../rule.ts'

const PI0 = {
  revision: 'main',
  fingerprint: '0'.repeat(64),
  config: { type: 'pi0', max_state_dim: 32, max_action_dim: 32 },
  image: { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
  tokenizer: [],
  tensors: {},
  statistics: {},
}

export const paddedWidthOfWeights = defineRule({
  id: 'VLA541',
  name: 'padded-width-of-weights',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'States and actions are padded to the widths that the pretrained weights have.',
  why: 'The projections of pretrained weights have one column per padded dimension. A robot with fewer dimensions is padded, not the policy narrowed: with another width the projections do not fit, and the run stops when it loads the weights.',
  fix: 'Leave the field out: the pretrained policy says it, and a smaller robot is padded.',
  suppress: { allowed: false, because: 'The run stops when it loads the weights.' },
  sources: [
    {
      title: 'openpi issue 580',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/580',
      locator: 'action_dim set to that of the robot',
    },
    { title: 'LeRobot', at: 'lerobot/policies/pi0/modeling_pi0.py', locator: 'pad_vector, action_in_proj' },
  ],
  messages: {
    differ: '{field} is {declared}, and the weights have {pretrained}: a robot of fewer dimensions is padded.',
  },
  valid: [
    {
      caption: 'As the weights say.',
      code: `model: pi0({ cameras: ['base_0_rgb'], weights: './weights/pi0' }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: { weights: { 'weights/pi0': PI0 } },
    },
    {
      caption: 'Nothing pretrained: the widths are free.',
      code: `model: pi0({ cameras: ['base_0_rgb'], config: { max_action_dim: 8 } }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  invalid: [
    {
      caption: 'The width of the robot.',
      code: `model: pi0({ cameras: ['base_0_rgb'], weights: './weights/pi0', config: { max_action_dim: 8 } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: { weights: { 'weights/pi0': PI0 } },
    },
  ],
  check({ plan, known, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || model.weights === null) return
    for (const [field, role] of [
      ['max_state_dim', 'state'],
      ['max_action_dim', 'action'],
    ] as const) {
      const width = model.config[field]
      if (typeof width !== 'number') continue
      // The weights' own width stands in the plan, unless the declaration says another.
      const pretrained = known(model.pretrainedWidths)?.[role] ?? null
      if (pretrained === null || pretrained === width) continue
      const at = ['model', 'config', field]
      report({
        message: 'differ',
        at: ['model', 'config'],
        path: at,
        data: { field, declared: width, pretrained },
        related: [{ at: ['model', 'weights'], note: `has ${String(pretrained)}` }],
        fixes: [{ label: `Remove ${field}`, kind: 'safe', edits: [{ kind: 'remove', path: at }] }],
      })
    }
  },
})
