import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { normalised } from '../statistics.ts'

/** Standard deviations from the mean beyond which no sample of a robot lies by nature. */
const FAR = 100

export const outlierSetsTheScale = defineRule({
  id: 'VLA562',
  name: 'outlier-sets-the-scale',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'No value of a dimension lies a hundred standard deviations from its mean.',
  why: 'One faulty reading sets the scale. Normalised by the extremes, everything else falls into a hundredth of the range; by mean and deviation, the reading itself becomes a number in the hundreds, and the update that meets it moves every weight.',
  fix: "Use 'quantiles' where the dataset has them, or take the frame out of the dataset.",
  suppress: { allowed: true, when: 'The dimension is a switch that is thrown once in thousands of frames.' },
  sources: [
    {
      title: 'openpi issue 814',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/814',
      locator: 'normalised values in the thousands, and the loss explodes',
    },
  ],
  messages: {
    far: "In {dimensions} of '{feature}' in '{dataset}', an extreme lies {times} standard deviations from the mean.",
  },
  valid: [{ caption: 'Within a few.', code: `name: 'within',` }],
  invalid: [
    {
      caption: 'One faulty reading.',
      code: `name: 'faulty',`,
      lock: { datasets: { 'data/reach': { statistics: { action: { max: [1, 1, 900, 1] } } } } },
    },
  ],
  check(context) {
    normalised(context, ({ dataset, index, role, feature, mode, statistics, uses }) => {
      if (mode === 'quantiles' || statistics === undefined) return
      const { mean, std, min, max } = statistics
      const found = (std ?? []).flatMap((deviation, dimension) => {
        const [centre, low, high] = [mean?.[dimension], min?.[dimension], max?.[dimension]]
        if (typeof centre !== 'number' || typeof low !== 'number' || typeof high !== 'number') return []
        if (deviation === null || deviation <= 0 || !uses(dimension)) return []
        const times = Math.max(high - centre, centre - low) / deviation
        return times > FAR ? [{ dimension, times }] : []
      })
      if (found.length === 0) return
      context.report({
        message: 'far',
        at: ['normalize', role],
        path: ['normalize', role],
        data: {
          dimensions: dimensions(found.map(({ dimension }) => dimension)),
          feature,
          dataset,
          times: Math.round(Math.max(...found.map(({ times }) => times))),
        },
        related: [{ at: ['datasets', index], note: `'${dataset}'` }],
      })
    })
  },
})
