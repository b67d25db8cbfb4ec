import { defineRule } from '../rule.ts'

export const stateNotRead = defineRule({
  id: 'VLA503',
  name: 'state-not-read',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Proprioception is normalised only where the model reads it.',
  why: 'The option has no effect: the policy never sees the state, though the declaration reads as if it did.',
  fix: 'Give the model its state token (state: true in composed), or remove the option.',
  suppress: { allowed: true, when: 'The line is shared with a pipeline whose model reads the state.' },
  sources: [
    {
      title: 'openpi',
      at: 'openpi/src/openpi/models/pi0_config.py',
      locator: 'discrete_state_input: where it is off, a declared state is silently unused',
    },
  ],
  messages: { unread: '`normalize.state` is set, but the model reads no proprioception.' },
  valid: [{ caption: 'A model with state.', code: `normalize: { state: 'meanStd' },` }],
  invalid: [
    {
      caption: 'A model without.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),
normalize: { state: 'meanStd' },`,
    },
  ],
  check({ plan, known, declared, report }) {
    const path = ['normalize', 'state']
    if (!declared(path) || known(plan.model.stateDim) > 0) return
    report({
      message: 'unread',
      at: path,
      on: 'key',
      data: {},
      related: [{ at: ['model'], path: ['model'], note: 'the model' }],
      fixes: [{ label: 'Remove `normalize.state`', kind: 'safe', edits: [{ kind: 'remove', path }] }],
    })
  },
})
