import { defineRule } from '../rule.ts'

const MOST = 1_000

export const checkpointsWithoutEnd = defineRule({
  id: 'VLA225',
  name: 'checkpoints-without-end',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A run is saved at most a thousand times.',
  why: 'Every checkpoint holds weights and both moments, and the next one waits until the last is on the disk: the run is as fast as the disk, and loses no more by an interruption than the few updates in between.',
  fix: "Save as often as an interruption may cost: '10%', or every thousand updates.",
  suppress: { allowed: true, when: 'The model is small, and nodes are taken away every few minutes.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/checkpoints.py',
      locator: 'save_if_due: the one before is awaited',
    },
  ],
  messages: { often: 'A checkpoint every {every} of {updates} updates makes {count} of them.' },
  valid: [{ caption: 'A hundred.', code: `checkpoint: { every: 10 },` }],
  invalid: [
    {
      caption: 'After every update.',
      code: `training: { updates: 5_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },\ncheckpoint: { every: 1 },`,
    },
  ],
  check({ plan, path, report }) {
    const { every } = plan.checkpoint
    const { updates } = plan.training
    const count = Math.ceil(updates / every)
    if (count <= MOST) return
    const at = ['checkpoint', 'every']
    report({
      message: 'often',
      at,
      data: { every, updates, count },
      related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      fixes: [{ label: "Save every '1%'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: '1%' }] }],
    })
  },
})
