import { defineRule } from '../rule.ts'

export const actionMaskLength = defineRule({
  id: 'VLA518',
  name: 'action-mask-length',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: '`actionMask` has one flag per action dimension.',
  why: 'It would not be known which dimensions pass unnormalised.',
  fix: 'Write one flag per dimension, in the order of the dataset.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/vla/datasets/rlds/oxe/materialize.py',
      locator: 'action_normalization_mask: one flag per dimension, False for the gripper',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/normalize.py',
      locator: 'normalizer: statistics and mask have lengths',
    },
  ],
  messages: { length: '`actionMask` has {flags} flags, but actions have {width} dimensions.' },
  valid: [{ caption: 'Four for four.', code: `normalize: { actionMask: [true, true, true, false] },` }],
  invalid: [
    {
      caption: "OpenVLA's seven for a robot with four.",
      code: `normalize: { actionMask: [true, true, true, true, true, true, false] },`,
    },
  ],
  check({ plan, known, declared, report }) {
    const at = ['normalize', 'actionMask']
    if (!declared(at)) return
    const flags = known(plan.normalize.actionMask).length
    const width = known(plan.model.actionDim)
    if (flags === width) return
    report({
      message: 'length',
      at,
      data: { flags, width },
      related: plan.datasets.map((dataset, index) => ({
        at: ['datasets', index, 'action'],
        note: `the actions of '${dataset.name}'`,
      })),
    })
  },
})
