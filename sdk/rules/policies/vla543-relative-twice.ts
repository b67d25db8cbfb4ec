import { findPolicy } from '../../catalog/lerobot/index.ts'
import { defineRule } from '../rule.ts'

/** Absolute positions lie where the state lies: their mean is within this many of its deviations, deltas are around zero. */
const AROUND_ZERO = 0.1
/** And they cover what the state covers; one step of it is much less. */
const SPAN = 0.5

export const relativeTwice = defineRule({
  id: 'VLA543',
  name: 'relative-twice',
  area: 'policies',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Actions that are relative already are not made relative again.',
  why: 'The state would be subtracted from what is a step already: the policy learns to undo where the robot stands, and at inference the state is added to it.',
  fix: 'Say config: { use_relative_actions: false }, or record absolute actions.',
  suppress: { allowed: true, when: 'The state is measured about another origin than the actions.' },
  sources: [
    {
      title: 'openpi issue 750',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/750',
      locator: 'delta actions on a dataset of deltas',
    },
    { title: 'LeRobot', at: 'lerobot/processor/relative_action_processor.py', locator: 'to_relative_actions' },
  ],
  messages: {
    twice:
      "The actions of '{dataset}' look relative already: they lie around 0, while the state lies around {state}, and cover {share} of its range.",
  },
  valid: [
    {
      caption: 'Absolute positions.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true, relative_exclude_joints: [] } }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  invalid: [
    {
      caption: 'Steps of some centimetres.',
      code: `model: pi05({ cameras: ['base_0_rgb'], config: { use_relative_actions: true, relative_exclude_joints: [] } }),
cameras: { base_0_rgb: 'observation.image' },`,
      lock: {
        datasets: {
          'data/reach': {
            statistics: {
              'observation.state': {
                mean: [0.5, 0.5, 0.5, 0.5],
                std: [0.2, 0.2, 0.2, 0.2],
                min: [0, 0, 0, 0],
                max: [1, 1, 1, 1],
                q01: [0.1, 0.1, 0.1, 0.1],
                q99: [0.9, 0.9, 0.9, 0.9],
              },
              action: {
                mean: [0, 0, 0, 0],
                std: [0.01, 0.01, 0.01, 0.01],
                min: [-0.03, -0.03, -0.03, -0.03],
                max: [0.03, 0.03, 0.03, 0.03],
                q01: [-0.02, -0.02, -0.02, -0.02],
                q99: [0.02, 0.02, 0.02, 0.02],
              },
            },
          },
        },
      },
    },
  ],
  check({ plan, known, each, report }) {
    const { model } = plan
    if (model.family !== 'lerobot') return
    if (findPolicy(model.type)?.describe(model).values['use_relative_actions'] !== true) return
    each(plan.datasets, (dataset, index) => {
      const { state, action } = dataset
      const statistics = known(dataset.statistics)
      if (state === null) return
      const [own, step] = [statistics[state], statistics[action]]
      const dimensions = Math.min(known(dataset.stateDim), known(dataset.actionDim))
      // Only where the state is away from zero can the two be told apart.
      const looks = Array.from({ length: dimensions }, (_, dimension) => {
        const at = (of: typeof own, name: string): number => of?.[name]?.[dimension] ?? Number.NaN
        const mean = at(own, 'mean')
        if (!(Math.abs(mean) > at(own, 'std'))) return undefined
        const share = (at(step, 'max') - at(step, 'min')) / (at(own, 'max') - at(own, 'min'))
        return { mean, share, isStep: Math.abs(at(step, 'mean')) <= AROUND_ZERO * Math.abs(mean) && share < SPAN }
      }).filter((look) => look !== undefined)
      const [first] = looks
      if (first === undefined || !looks.every(({ isStep }) => isStep)) return
      report({
        message: 'twice',
        at: ['model', 'config'],
        path: ['model', 'config', 'use_relative_actions'],
        data: {
          dataset: dataset.name,
          state: Number(first.mean.toPrecision(3)),
          share: `${(100 * first.share).toFixed(0)} %`,
        },
        related: [{ at: ['datasets', index], note: `'${dataset.name}'` }],
        fixes: [
          {
            label: 'Use the actions as they are',
            kind: 'suggestion',
            edits: [{ kind: 'set', path: ['model', 'config', 'use_relative_actions'], value: false }],
          },
        ],
      })
    })
  },
})
