import { isKnown } from '../../plan/plan.ts'
import { rate } from '../facts.ts'
import { defineRule } from '../rule.ts'

const LIMIT = 1e-3

export const floorReadAsRate = defineRule({
  id: 'VLA222',
  name: 'floor-read-as-rate',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: "A schedule's `floor` is a share of the peak, 0 to 1, not a learning rate.",
  why: 'Other trainers take the learning rate at the end (decay_lr, min_lr). Such a number read as a share is nothing: the last part of the run trains at less than a thousandth of the peak.',
  fix: 'Divide the rate by the peak: 2.5e-6 of 2.5e-5 is floor: 0.1.',
  suppress: { allowed: true, when: 'The share is meant; 0 would say the same.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi0/configuration_pi0.py',
      locator: 'scheduler_decay_lr: 2.5e-6, a rate',
    },
    {
      title: 'Megatron-LM',
      at: 'https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py',
      locator: '--min-lr: must not be above the peak',
    },
  ],
  messages: { tiny: 'A floor of {floor} of the peak ends the run at a learning rate of {lr}.' },
  valid: [
    {
      caption: 'A tenth of the peak.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ floor: 0.1 }) },`,
    },
    {
      caption: 'Down to nothing.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ floor: 0 }) },`,
    },
  ],
  invalid: [
    {
      caption: 'The rate at the end.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, schedule: cosine({ floor: 1e-4 }) },`,
    },
  ],
  check({ plan, path, report }) {
    const { schedule } = plan.training
    if (schedule.kind === 'constant' || schedule.floor === 0 || schedule.floor >= LIMIT) return
    const peak = Math.max(0, ...plan.modules.map(({ lr }) => (isKnown(lr) ? (lr ?? 0) : 0)))
    const share = Number((schedule.floor / peak).toPrecision(2))
    const at = ['training', 'schedule', 'floor']
    report({
      message: 'tiny',
      at,
      data: { floor: rate(schedule.floor), lr: rate(schedule.floor * peak) },
      ...(peak > 0 && share < 1
        ? {
            fix: `If ${rate(schedule.floor)} is the rate at the end, the share is ${String(share)}; if nothing is, write 0.`,
            fixes: [
              {
                label: `Set floor to ${String(share)}`,
                kind: 'suggestion' as const,
                edits: [{ kind: 'set' as const, path: path(at), value: share }],
              },
            ],
          }
        : {}),
    })
  },
})
