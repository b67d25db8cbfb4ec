import { listed } from '../facts.ts'
import { findPolicy } from '../../catalog/lerobot/index.ts'
import { defineRule } from '../rule.ts'

export const relativeJointsUnknown = defineRule({
  id: 'VLA536',
  name: 'relative-joints-unknown',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'Joints that relative actions leave out are found among the names of the dataset.',
  why: 'LeRobot looks for relative_exclude_joints in the names of the action. Without names, or where none of them matches, it makes every dimension relative without a word: a gripper that was to be opened to a width is moved by one.',
  fix: 'Give the action dimensions of the dataset names, or say config: { relative_exclude_joints: [] } for actions that are all relative.',
  suppress: { allowed: false, because: 'The failure is silent: the robot moves by what was meant as a position.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/processor/relative_action_processor.py',
      locator: 'RelativeActionsProcessorStep._build_mask',
    },
  ],
  messages: {
    nameless:
      'Actions are relative except for {joints}, and the datasets do not agree on names of the action dimensions.',
    unmatched: 'Actions are relative except for {joints}, and no action dimension is called that: they are {names}.',
  },
  valid: [
    {
      caption: 'Every dimension is relative.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true, relative_exclude_joints: [] } }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
    {
      caption: 'The dataset names its gripper.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: { datasets: { 'data/reach': { features: { action: { names: ['x', 'y', 'z', 'gripper'] } } } } },
    },
  ],
  invalid: [
    {
      caption: 'Names that nobody recorded.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true } }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
    {
      caption: 'A gripper by another name.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: { datasets: { 'data/reach': { features: { action: { names: ['x', 'y', 'z', 'jaw'] } } } } },
    },
  ],
  check({ plan, known, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    const values = findPolicy(model.type)?.describe(model).values ?? {}
    const excluded = values['relative_exclude_joints']
    if (values['use_relative_actions'] !== true || !Array.isArray(excluded) || excluded.length === 0) return
    known(model.actionDim)
    const joints = excluded.map(String)
    const at = ['model', 'config', 'relative_exclude_joints']
    const names = values['action_feature_names']
    if (!Array.isArray(names)) {
      report({ message: 'nameless', at: ['model', 'config'], path: at, data: { joints: listed(joints) } })
      return
    }
    const unmatched = joints.filter(
      (joint) => !names.some((name) => String(name).toLowerCase().includes(joint.toLowerCase())),
    )
    if (unmatched.length > 0)
      report({
        message: 'unmatched',
        at: ['model', 'config'],
        path: at,
        data: { joints: listed(unmatched), names: listed(names.map(String)) },
      })
  },
})
