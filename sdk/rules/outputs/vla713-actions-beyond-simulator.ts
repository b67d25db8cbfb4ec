import { isKnown } from '../../plan/plan.ts'
import { metaworldActions } from '../../catalog/metaworld.ts'
import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const actionsBeyondSimulator = defineRule({
  id: 'VLA713',
  name: 'actions-beyond-simulator',
  area: 'outputs',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The simulator can do what the demonstrations do.',
  why: 'Actions beyond its bounds are clipped: the data comes from another robot, or has another unit, and what was learnt cannot be carried out.',
  fix: 'Evaluate on the environment that the data was recorded in, or record actions within its bounds.',
  suppress: { allowed: true, when: 'A few recorded actions saturate, as the simulator itself clips them.' },
  sources: [{ title: 'LeRobot', at: 'lerobot/envs/metaworld.py', locator: 'action_space: Box(-1, 1)' }],
  messages: {
    beyond: "In {dimensions}, actions of '{dataset}' reach from {low} to {high}; MetaWorld takes {least} to {most}.",
  },
  valid: [
    {
      caption: 'Within the bounds.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Joint angles in degrees.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
      lock: {
        datasets: {
          'data/reach': {
            statistics: { action: { min: [-90, -1, -1, -1], max: [90, 1, 1, 1], std: [40, 0.4, 0.4, 0.4] } },
          },
        },
      },
    },
  ],
  check({ plan, report }) {
    const [dataset] = plan.datasets
    if (plan.evaluate === null || dataset === undefined || !isKnown(dataset.statistics)) return
    const all: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>> = dataset.statistics
    const { min = [], max = [] } = all[dataset.action] ?? {}
    const slack = 1e-3
    const beyond = min.flatMap((low, dimension) => {
      const high = max[dimension]
      if (low === null || high === null || high === undefined) return []
      return low < metaworldActions.low - slack || high > metaworldActions.high + slack
        ? [{ dimension, low, high }]
        : []
    })
    if (beyond.length === 0) return
    report({
      message: 'beyond',
      at: ['evaluate', 'env'],
      data: {
        dimensions: dimensions(beyond.map(({ dimension }) => dimension)),
        dataset: dataset.name,
        low: String(Math.min(...beyond.map(({ low }) => low))),
        high: String(Math.max(...beyond.map(({ high }) => high))),
        least: metaworldActions.low,
        most: metaworldActions.high,
      },
      related: [{ at: ['datasets', 0], note: `'${dataset.name}'` }],
    })
  },
})
