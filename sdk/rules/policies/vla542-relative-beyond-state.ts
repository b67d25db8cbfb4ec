import { findPolicy } from '../../catalog/lerobot/index.ts'
import { defineRule } from '../rule.ts'

export const relativeBeyondState = defineRule({
  id: 'VLA542',
  name: 'relative-beyond-state',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'Relative actions have a state of at least their dimensions.',
  why: 'LeRobot subtracts the state from the actions dimension by dimension, in their order. With a shorter one there is nothing to subtract for the last ones.',
  fix: 'Name a state of as many dimensions (`state` of lerobotDataset), leave dimensions out by relative_exclude_joints, or use absolute actions: config: { use_relative_actions: false }.',
  suppress: { allowed: false, because: 'The run fails, or the actions stay what they were without a word.' },
  sources: [
    {
      title: 'Isaac GR00T issue 651',
      at: 'https://github.com/NVIDIA/Isaac-GR00T/issues/651',
      locator: 'relative actions need the state of the same key',
    },
    {
      title: 'LeRobot',
      at: 'lerobot/processor/relative_action_processor.py',
      locator: 'to_relative_actions: actions minus state, by place',
    },
  ],
  messages: {
    short: 'Actions are relative to the state, which has {state} of their {action} dimensions.',
  },
  valid: [
    {
      caption: 'As many dimensions.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true, relative_exclude_joints: [] } }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
    {
      caption: 'A gripper that is not relative, and not in the state.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: {
        datasets: {
          'data/reach': {
            features: {
              'observation.state': { shape: [3] },
              action: { names: ['x', 'y', 'z', 'gripper'] },
            },
            statistics: {
              'observation.state': {
                min: [-1, -1, -1],
                max: [1, 1, 1],
                mean: [0.1, 0.1, 0.1],
                std: [0.4, 0.4, 0.4],
                q01: [-0.9, -0.9, -0.9],
                q99: [0.9, 0.9, 0.9],
              },
            },
          },
        },
      },
    },
  ],
  invalid: [
    {
      caption: 'Three of four.',
      code: `model: pi0({ cameras: ['base_0_rgb'], config: { use_relative_actions: true, relative_exclude_joints: [] } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: {
        datasets: {
          'data/reach': {
            features: { 'observation.state': { shape: [3] } },
            statistics: {
              'observation.state': {
                min: [-1, -1, -1],
                max: [1, 1, 1],
                mean: [0.1, 0.1, 0.1],
                std: [0.4, 0.4, 0.4],
                q01: [-0.9, -0.9, -0.9],
                q99: [0.9, 0.9, 0.9],
              },
            },
          },
        },
      },
    },
  ],
  check({ plan, known, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    const values = findPolicy(model.type)?.describe(model).values ?? {}
    if (values['use_relative_actions'] !== true) return
    const [state, action] = [known(model.stateDim), known(model.actionDim)]
    const needed = 1 + lastRelative(action, values)
    if (state === 0 || state >= needed) return // without any, VLA530
    report({
      message: 'short',
      at: ['model', 'config'],
      path: ['model', 'config', 'use_relative_actions'],
      related: [{ at: ['model', 'stateDim'], note: `${String(state)} dimensions` }],
      data: { state, action },
    })
  },
})

/** The last dimension that is relative; -1 where none is. */
function lastRelative(action: number, values: Readonly<Record<string, unknown>>): number {
  const excluded: unknown = values['relative_exclude_joints']
  const names: unknown = values['action_feature_names']
  if (!Array.isArray(excluded) || !Array.isArray(names)) return action - 1
  const isRelative = (name: string): boolean =>
    !excluded.some((joint) => name.toLowerCase().includes(String(joint).toLowerCase()))
  return names.map(String).slice(0, action).findLastIndex(isRelative)
}
