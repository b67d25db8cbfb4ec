import { defineRule } from '../rule.ts'

export const trackedTwice = defineRule({
  id: 'VLA850',
  name: 'tracked-twice',
  area: 'tracking',
  severity: 'error',
  since: '0.1.0',
  summary: 'Each tracker is declared once.',
  why: 'Both write into the same files of the run: every point would be there twice, and a run of wandb can have one project.',
  fix: 'Remove one of them.',
  suppress: { allowed: false, because: 'The metrics would be wrong without a sign.' },
  sources: [
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/tracking.py', locator: 'one file per tracker' },
  ],
  messages: { twice: "The tracker '{kind}' is declared twice." },
  valid: [{ caption: 'Two kinds.', code: `track: [tensorboard(), wandb({ project: 'arm' })],` }],
  invalid: [
    { caption: 'One kind twice.', code: `track: [tensorboard(), tensorboard()],` },
    { caption: 'Two projects.', code: `track: [wandb({ project: 'arm' }), wandb({ project: 'all' })],` },
  ],
  check({ plan, report }) {
    plan.track.forEach(({ kind }, index) => {
      const first = plan.track.findIndex((other) => other.kind === kind)
      if (first === index) return
      report({
        message: 'twice',
        at: ['track'],
        path: ['track', index],
        data: { kind },
        related: [{ at: ['track'], path: ['track', first], note: 'the first' }],
        fixes: [
          { label: 'Remove the second', kind: 'suggestion', edits: [{ kind: 'remove', path: ['track', index] }] },
        ],
      })
    })
  },
})
