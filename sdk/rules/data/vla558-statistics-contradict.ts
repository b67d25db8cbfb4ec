import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { normalised } from '../statistics.ts'

/** Pairs of which the first is at most the second. */
const ORDER = [
  ['min', 'max'],
  ['q01', 'q99'],
  ['min', 'mean'],
  ['mean', 'max'],
] as const

export const statisticsContradict = defineRule({
  id: 'VLA558',
  name: 'statistics-contradict',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'The statistics of a dimension are in order: min, mean, max; q01, q99; a standard deviation of at least 0.',
  why: 'They cannot be those of any data. Normalised by a range that is negative, actions change their sign; by one that is not theirs, their scale.',
  fix: 'Compute the statistics of the dataset anew.',
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'LeRobot issue 1078',
      at: 'https://github.com/huggingface/lerobot/issues/1078',
      locator: 'statistics that were never filled',
    },
  ],
  messages: {
    order: "In {dimensions} of '{feature}' in '{dataset}', {first} is above {second}.",
    negative: "In {dimensions} of '{feature}' in '{dataset}', the standard deviation is negative.",
  },
  valid: [{ caption: 'In order.', code: `name: 'in-order',` }],
  invalid: [
    {
      caption: 'The quantiles have changed places.',
      code: `name: 'swapped',`,
      lock: {
        datasets: {
          'data/reach': { statistics: { action: { q01: [0.9, -0.9, -0.9, -0.9], q99: [-0.9, 0.9, 0.9, 0.9] } } },
        },
      },
    },
    {
      caption: 'No deviation is below zero.',
      code: `name: 'negative',`,
      lock: { datasets: { 'data/reach': { statistics: { 'observation.state': { std: [0.4, -0.4, 0.4, 0.4] } } } } },
    },
  ],
  check(context) {
    normalised(context, ({ dataset, index, feature, statistics, uses }) => {
      if (statistics === undefined) return
      const at = ['datasets', index]
      for (const [first, second] of ORDER) {
        const high = statistics[second]
        const wrong = (statistics[first] ?? []).flatMap((low, dimension) => {
          const upper = high?.[dimension]
          if (low === null || upper === null || upper === undefined || !uses(dimension)) return []
          const isStill = statistics['min']?.[dimension] === statistics['max']?.[dimension] // VLA504
          if (isStill && (first === 'mean' || second === 'mean')) return []
          return low > upper + 1e-6 * Math.max(1, Math.abs(upper)) ? [dimension] : []
        })
        if (wrong.length === 0) continue
        context.report({
          message: 'order',
          at,
          data: { dimensions: dimensions(wrong), feature, dataset, first, second },
        })
        return
      }
      const negative = (statistics['std'] ?? []).flatMap((std, dimension) =>
        std !== null && std < 0 && uses(dimension) ? [dimension] : [],
      )
      if (negative.length > 0)
        context.report({ message: 'negative', at, data: { dimensions: dimensions(negative), feature, dataset } })
    })
  },
})
