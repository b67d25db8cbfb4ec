import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { NEEDED, normalised, spans } from '../statistics.ts'

export const constantDimension = defineRule({
  id: 'VLA504',
  name: 'constant-dimension',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'It is said what happens to a dimension that never changes.',
  why: 'Its range is zero. Dividing by it plus a small number turns the first real deviation on the robot into a value of millions.',
  fix: "Say normalize: { constant: 'pass' } to leave such dimensions as they are, or 'zero' to make them 0.",
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/vla/datasets/rlds/utils/data_utils.py',
      locator: 'normalize_action_and_proprio: dimensions with min == max are set to 0',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/modeling/normalize.py', locator: 'normalizer' },
  ],
  messages: { constant: "{dimensions} of '{feature}' in '{dataset}' never change: {statistic} gives no range." },
  valid: [
    {
      caption: 'Passed as it is.',
      code: `normalize: { constant: 'pass' },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { min: [-1, -1, -1, 1], max: [1, 1, 1, 1] } } } } },
    },
    {
      caption: 'Masked out.',
      code: `normalize: { actionMask: [true, true, true, false] },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { min: [-1, -1, -1, 1], max: [1, 1, 1, 1] } } } } },
    },
  ],
  invalid: [
    {
      caption: 'A gripper that stays closed.',
      code: `normalize: { action: 'minMax' },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { min: [-1, -1, -1, 1], max: [1, 1, 1, 1] } } } } },
    },
  ],
  check(context) {
    if (context.plan.normalize.constant !== 'refuse') return
    normalised(context, (vector) => {
      const still = spans(vector).flatMap(({ dimension, span }) => (span === 0 ? [dimension] : []))
      if (still.length === 0) return
      const text = dimensions(still)
      context.report({
        message: 'constant',
        at: ['normalize', 'constant'],
        path: ['normalize', 'constant'],
        data: {
          dimensions: text.charAt(0).toUpperCase() + text.slice(1),
          feature: vector.feature,
          dataset: vector.dataset,
          statistic: vector.mode === 'meanStd' ? 'std' : NEEDED[vector.mode].join(' and '),
        },
        related: [{ at: ['datasets', vector.index], note: `'${vector.dataset}'` }],
        fixes: [
          {
            label: "Leave constant dimensions as they are ('pass')",
            kind: 'suggestion',
            edits: [{ kind: 'set', path: ['normalize', 'constant'], value: 'pass' }],
          },
        ],
      })
    })
  },
})
