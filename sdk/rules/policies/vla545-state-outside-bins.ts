import { dimensions } from '../facts.ts'
import { defineRule } from '../rule.ts'

/** Of the ends of the bins, for what was recorded in single precision. */
const TOLERANCE = 1e-3

export const stateOutsideBins = defineRule({
  id: 'VLA545',
  name: 'state-outside-bins',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'pi0.5 is shown a state that its bins can tell apart.',
  why: 'pi0.5 writes the state into its prompt as numbers of 256 bins from -1 to 1. What lies beyond falls into the outermost bin: of unnormalised joints nearly everything does, and the policy does not see them move.',
  fix: "Use normalize: { state: 'quantiles' } (LeRobot's), or 'minMax'.",
  suppress: { allowed: false, because: 'The failure is silent: the prompt reads like any other.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi05/processor_pi05.py',
      locator: 'Pi05PrepareStateTokenizerProcessorStep: np.digitize over [-1, 1]',
    },
    {
      title: "LeRobot's page on pi0.5",
      at: 'https://huggingface.co/docs/lerobot/pi05',
      locator:
        'Quickstart on LIBERO: trained by mean and deviation, which leaves the bins a third of the values at their ends',
    },
  ],
  messages: {
    outside:
      "pi0.5 reads the state in bins from -1 to 1; unnormalised, '{feature}' of '{dataset}' runs from {low} to {high} in {dimensions}.",
  },
  valid: [
    {
      caption: 'By quantiles.',
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },`,
    },
    {
      caption: "By mean and deviation, as LeRobot's policy for LIBERO.",
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },\nnormalize: { state: 'meanStd', action: 'meanStd' },`,
    },
    {
      caption: 'Unnormalised, and within the bins as recorded.',
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },\nnormalize: { state: 'identity' },`,
    },
  ],
  invalid: [
    {
      caption: 'Joints in degrees, unnormalised.',
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },\nnormalize: { state: 'identity' },`,
      lock: {
        datasets: {
          'data/reach': { statistics: { 'observation.state': { min: [-90, -90, -1, 0], max: [90, 45, 1, 1] } } },
        },
      },
    },
  ],
  check({ plan, path, known, each, report }) {
    if (plan.model.family !== 'lerobot' || plan.model.type !== 'pi05' || plan.normalize.state !== 'identity') return
    each(plan.datasets, (dataset, index) => {
      if (dataset.state === null) return
      const { min, max } = known(dataset.statistics)[dataset.state] ?? {}
      if (min === undefined || max === undefined) return
      const outside = max.flatMap((high, dimension) => {
        const low = min[dimension]
        if (high === null || low === null || low === undefined) return []
        return low < -1 - TOLERANCE || high > 1 + TOLERANCE ? [{ dimension, low, high }] : []
      })
      if (outside.length === 0) return
      const at = ['normalize', 'state']
      report({
        message: 'outside',
        at,
        data: {
          feature: dataset.state,
          dataset: dataset.name,
          low: Math.min(...outside.map(({ low }) => low)),
          high: Math.max(...outside.map(({ high }) => high)),
          dimensions: dimensions(outside.map(({ dimension }) => dimension)),
        },
        related: [
          { at: ['model', 'type'], path: ['model'], note: 'pi0.5' },
          { at: ['datasets', index], note: `'${dataset.name}'` },
        ],
        fixes: [
          {
            label: "Use 'quantiles'",
            kind: 'suggestion',
            edits: [{ kind: 'set', path: path(at), value: 'quantiles' }],
          },
        ],
      })
    })
  },
})
