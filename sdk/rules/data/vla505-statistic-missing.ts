import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { NEEDED, normalised } from '../statistics.ts'

const RECOMPUTE = 'Recompute the statistics: lerobot-edit-dataset --operation.type recompute_stats.'
const QUANTILES =
  "Add quantiles (python -m lerobot.scripts.augment_dataset_quantile_stats), or choose 'meanStd' or 'minMax'."

export const statisticMissing = defineRule({
  id: 'VLA505',
  name: 'statistic-missing',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'A dataset has the statistics that its normalisation needs, all of them finite.',
  why: 'Frameworks that fall back to no normalisation, or carry an infinity on, train a policy whose actions mean something else.',
  fix: RECOMPUTE,
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'LeRobot issue 2189',
      at: 'https://github.com/huggingface/lerobot/issues/2189',
      locator: 'q01 and q99 missing from older datasets',
    },
    {
      title: 'LeRobot issue 1078',
      at: 'https://github.com/huggingface/lerobot/issues/1078',
      locator: 'statistics that are infinite',
    },
  ],
  messages: {
    none: "The dataset '{dataset}' has no statistics of '{feature}', which {mode} needs.",
    missing: "The statistics of '{feature}' in '{dataset}' lack {statistic}, which {mode} needs.",
    infinite: "The statistic {statistic} of '{feature}' in '{dataset}' is not finite in {dimensions}.",
  },
  valid: [{ caption: 'Quantiles that are there.', code: `normalize: { state: 'quantiles', action: 'quantiles' },` }],
  invalid: [
    {
      caption: 'An older dataset without quantiles.',
      code: `normalize: { action: 'quantiles' },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { q01: null, q99: null } } } } },
    },
    {
      caption: 'An infinite extreme.',
      code: `normalize: { action: 'minMax' },`,
      lock: { datasets: { 'data/reach': { statistics: { action: { max: [1, 1, null, 1] } } } } },
    },
    {
      caption: 'No statistics at all.',
      code: `normalize: { state: 'meanStd' },`,
      lock: { datasets: { 'data/reach': { statistics: { 'observation.state': null } } } },
    },
  ],
  check(context) {
    normalised(context, ({ dataset, index, role, feature, mode, statistics, uses }) => {
      const at = ['normalize', role]
      const related = [{ at: ['datasets', index], note: `'${dataset}'` }]
      if (statistics === undefined) {
        // A feature that is not there at all has its own finding.
        if (role === 'state') context.known(context.plan.datasets[index]?.stateDim)
        else context.known(context.plan.datasets[index]?.actionDim)
        context.report({ message: 'none', at, path: at, data: { dataset, feature, mode }, related })
        return
      }
      const missing = NEEDED[mode].filter((name) => statistics[name] === undefined)
      if (missing.length > 0) {
        context.report({
          message: 'missing',
          at,
          path: at,
          data: { dataset, feature, mode, statistic: missing.join(' and ') },
          fix: mode === 'quantiles' ? QUANTILES : RECOMPUTE,
          related,
        })
        return
      }
      for (const statistic of NEEDED[mode]) {
        const bad = (statistics[statistic] ?? []).flatMap((value, dimension) =>
          value === null && uses(dimension) ? [dimension] : [],
        )
        if (bad.length === 0) continue
        context.report({
          message: 'infinite',
          at,
          path: at,
          data: { dataset, feature, statistic, dimensions: dimensions(bad) },
          related,
        })
      }
    })
  },
})
