import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { normalised, spans } from '../statistics.ts'

/** Of the whole range; openpi's reports had spans far below it. */
const SHARE = 1e-3

export const tinyQuantileSpan = defineRule({
  id: 'VLA509',
  name: 'tiny-quantile-span',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The range between q01 and q99 is not vanishing beside the whole range of a dimension.',
  why: 'A dimension that rests for 98 % of the frames is stretched a thousandfold: unclipped its rare motions explode the loss, clipped they are lost.',
  fix: "Use 'minMax' or 'meanStd', or leave the dimension unnormalised (actionMask).",
  suppress: {
    allowed: true,
    when: 'The dimension is binary in practice, clipping is on, and the rare motions do not matter.',
  },
  sources: [
    {
      title: 'openpi issue 814',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/814',
      locator: 'normalised values in the thousands, the loss explodes',
    },
  ],
  messages: {
    tiny: "Between q01 and q99, {dimensions} of '{feature}' in '{dataset}' cover less than a thousandth of their range.",
  },
  valid: [{ caption: 'Most of the range.', code: `normalize: { action: 'quantiles' },` }],
  invalid: [
    {
      caption: 'A gripper that moves in one frame of a thousand.',
      code: `normalize: { action: 'quantiles' },`,
      lock: {
        datasets: {
          'data/reach': { statistics: { action: { q01: [-0.9, -0.9, -0.9, 0.9999], q99: [0.9, 0.9, 0.9, 1] } } },
        },
      },
    },
  ],
  check(context) {
    normalised(context, (vector) => {
      const { statistics } = vector
      if (vector.mode !== 'quantiles' || statistics === undefined) return
      const tiny = spans(vector).flatMap(({ dimension, span }) => {
        const low = statistics['min']?.[dimension]
        const high = statistics['max']?.[dimension]
        if (typeof low !== 'number' || typeof high !== 'number' || span <= 0) return [] // a constant one has a finding of its own
        return span < SHARE * (high - low) ? [dimension] : []
      })
      if (tiny.length === 0) return
      context.report({
        message: 'tiny',
        at: ['normalize', vector.role],
        path: ['normalize', vector.role],
        data: { dimensions: dimensions(tiny), feature: vector.feature, dataset: vector.dataset },
        related: [{ at: ['datasets', vector.index], note: `'${vector.dataset}'` }],
      })
    })
  },
})
