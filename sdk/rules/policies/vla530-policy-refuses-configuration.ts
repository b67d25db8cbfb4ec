import { findPolicy } from '../../catalog/lerobot/index.ts'
import { defineRule } from '../rule.ts'

export const policyRefusesConfiguration = defineRule({
  id: 'VLA530',
  name: 'policy-refuses-configuration',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: "A policy's configuration is one that LeRobot accepts and that its model can run with.",
  why: 'LeRobot reads a configuration strictly and builds the model from it: an unknown field, a value of another type or sizes that do not fit end the run, some of them in its first update.',
  fix: 'Correct the field. The names are those of LeRobot 0.6.1.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/configs/policies.py',
      locator: 'PreTrainedConfig.from_pretrained: draccus, strict',
    },
    { title: 'LeRobot issue 3355', at: 'https://github.com/huggingface/lerobot/issues/3355', locator: 'DecodingError' },
  ],
  messages: { refused: '{problem}' },
  valid: [
    {
      caption: 'A small ACT.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { dim_model: 128, n_heads: 4, pretrained_backbone_weights: null } }),`,
    },
  ],
  invalid: [
    {
      caption: 'A field that LeRobot does not have.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { hidden_size: 128 } }),`,
    },
    {
      caption: 'More actions executed than predicted.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { n_action_steps: 32 } }),`,
    },
  ],
  check({ plan, origin, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    // What a pretrained policy says that was not read, nobody can judge here.
    const whole = model.weights === null || origin(['model', 'config']) === 'lock'
    for (const { field, message } of findPolicy(model.type)?.describe(model).problems ?? []) {
      const own = Object.hasOwn(model.config, field)
      if (!own && !whole) continue
      report({
        message: 'refused',
        at: own ? ['model', 'config', field] : ['model', 'config'],
        path: own ? ['model', 'config', field] : ['model'],
        data: { problem: message },
      })
    }
  },
})
