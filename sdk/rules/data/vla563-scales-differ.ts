import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

const RATIO = 100

export const scalesDiffer = defineRule({
  id: 'VLA563',
  name: 'scales-differ',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Dimensions of actions that are not normalised have scales of one order.',
  why: 'The loss is a mean over dimensions. Where one moves by degrees and another by metres, the first is all that the loss sees, and the other is never learnt.',
  fix: "Normalise actions: 'quantiles', 'minMax' or 'meanStd'.",
  suppress: { allowed: true, when: 'The loss is to follow the dimension with the largest scale.' },
  sources: [
    {
      title: 'Chi et al. 2023, Diffusion Policy',
      at: 'https://arxiv.org/abs/2303.04137',
      locator: 'appendix: each action dimension is normalised to [-1, 1]',
    },
  ],
  messages: {
    differ:
      "Actions of '{dataset}' are not normalised: dimension {wide} varies by {large}, dimension {narrow} by {small}.",
  },
  valid: [
    { caption: 'Normalised.', code: `normalize: { action: 'minMax' },` },
    { caption: 'Of one scale.', code: `normalize: { action: 'identity' },` },
  ],
  invalid: [
    {
      caption: 'Degrees and metres.',
      code: `normalize: { action: 'identity' },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { std: [40, 40, 40, 0.02] } } } } },
    },
  ],
  check({ plan, each, report }) {
    if (plan.normalize.action !== 'identity') return
    each(plan.datasets, (dataset, index) => {
      if (!isKnown(dataset.statistics)) return
      const all: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>> = dataset.statistics
      const spread = (all[dataset.action]?.['std'] ?? []).flatMap((std, dimension) =>
        std !== null && std > 0 ? [{ std, dimension }] : [],
      )
      const [first] = spread
      if (first === undefined) return
      const wide = spread.reduce((best, entry) => (entry.std > best.std ? entry : best), first)
      const narrow = spread.reduce((best, entry) => (entry.std < best.std ? entry : best), first)
      if (wide.std / narrow.std <= RATIO) return
      report({
        message: 'differ',
        at: ['normalize', 'action'],
        data: {
          dataset: dataset.name,
          wide: wide.dimension,
          large: String(Number(wide.std.toPrecision(3))),
          narrow: narrow.dimension,
          small: String(Number(narrow.std.toPrecision(3))),
        },
        related: [{ at: ['datasets', index], note: `'${dataset.name}'` }],
      })
    })
  },
})
