import { chunkOf } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const stepsBeyondChunk = defineRule({
  id: 'VLA705',
  name: 'steps-beyond-chunk',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'No more actions are executed than a prediction holds.',
  why: 'The policy predicts a chunk; there is nothing to execute behind its end.',
  fix: 'Execute at most the chunk.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'LeRobot 0.6.1',
      at: 'lerobot/policies/act/configuration_act.py',
      locator: 'n_action_steps must not exceed chunk_size',
    },
  ],
  messages: { beyond: '{steps} actions are to be executed, but a prediction holds {chunk}.' },
  valid: [
    {
      caption: 'Half of the chunk.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, actionSteps: 4 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Twice the chunk.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, actionSteps: 16 }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, known, path, report }) {
    const { evaluate } = plan
    if (evaluate === null) return
    const { chunk: size, at: where } = chunkOf(plan.model)
    const chunk = known(size)
    if (evaluate.actionSteps <= chunk) return
    const at = ['evaluate', 'actionSteps']
    report({
      message: 'beyond',
      at,
      data: { steps: evaluate.actionSteps, chunk },
      related: [{ at: where, note: 'the chunk' }],
      fixes: [
        { label: `Execute ${String(chunk)}`, kind: 'safe', edits: [{ kind: 'set', path: path(at), value: chunk }] },
      ],
    })
  },
})
