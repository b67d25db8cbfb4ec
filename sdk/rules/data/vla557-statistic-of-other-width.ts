import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'
import { NEEDED, normalised } from '../statistics.ts'

export const statisticOfOtherWidth = defineRule({
  id: 'VLA557',
  name: 'statistic-of-other-width',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'A statistic has one value per dimension of its feature.',
  why: 'The statistics belong to another version of the feature, or were padded: normalising fails, or shifts every dimension to the scale of its neighbour.',
  fix: 'Compute the statistics of the dataset anew.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'LeRobot pull request 3945',
      at: 'https://github.com/huggingface/lerobot/pull/3945',
      locator: 'statistics with another width after reloading',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/statistics.py', locator: 'recipe' },
  ],
  messages: {
    width: "The statistic {statistic} of '{feature}' in '{dataset}' has {length} values, the feature {width}.",
  },
  valid: [{ caption: 'Four and four.', code: `name: 'four',` }],
  invalid: [
    {
      caption: 'A dimension was added after the recording.',
      code: `name: 'five',`,
      lock: { datasets: { 'data/reach': { statistics: { action: { min: [-1, -1, -1], max: [1, 1, 1] } } } } },
    },
  ],
  check(context) {
    normalised(context, ({ dataset, index, role, feature, mode, statistics }) => {
      const entry = context.plan.datasets[index]
      const width = role === 'state' ? entry?.stateDim : entry?.actionDim
      if (statistics === undefined || width === undefined || !isKnown(width)) return
      const statistic = NEEDED[mode].find((name) => (statistics[name]?.length ?? width) !== width)
      if (statistic === undefined) return
      context.report({
        message: 'width',
        at: ['normalize', role],
        path: ['normalize', role],
        data: { statistic, feature, dataset, length: statistics[statistic]?.length ?? 0, width },
        related: [{ at: ['datasets', index], note: `'${dataset}'` }],
      })
    })
  },
})
