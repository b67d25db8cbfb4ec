import { defineRule } from '../rule.ts'

const MOST = 2_000
const LEAST = 0.01

export const runOutOfProportion = defineRule({
  id: 'VLA221',
  name: 'run-out-of-proportion',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The run sees the data neither thousands of times nor hardly at all.',
  why: 'Updates times batch over frames is how often a frame is seen. Recipes for single tasks reach some hundred times, mixtures a few: far from both, updates or batch are off by a factor, or the data is not the one that was meant.',
  fix: 'Look at `updates` and `globalBatch` (samples per update over all processes), and at the dataset.',
  suppress: { allowed: true, when: 'Over-fitting, or a first look at huge data, is what you want.' },
  sources: [
    {
      title: 'LeRobot, examples',
      at: 'https://huggingface.co/docs/lerobot/il_robots',
      locator: 'training: 100,000 steps of 8 samples on some 20,000 frames: 40 times',
    },
    {
      title: 'Diffusion Policy',
      at: 'https://huggingface.co/lerobot/diffusion_pusht',
      locator: '200,000 steps of 64 samples on 25,650 frames: 500 times',
    },
  ],
  messages: {
    often: '{updates} updates of {batch} samples see each of {frames} frames {times} times.',
    hardly: '{updates} updates of {batch} samples see {percent} % of {frames} frames.',
  },
  valid: [{ caption: 'Ten times.', code: `name: 'ten-times',` }],
  invalid: [
    {
      caption: 'A hundred times too many updates.',
      code: `training: { updates: 1_000_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },`,
    },
    {
      caption: 'A test run on all of a large dataset.',
      code: `training: { updates: 100, globalBatch: 64, microBatch: 32, lr: 1e-3 },`,
      lock: { datasets: { 'data/reach': { episodes: 20_000, frames: 2_000_000 } } },
    },
  ],
  check({ plan, known, report }) {
    const frames = plan.datasets.reduce((sum, dataset) => sum + known(dataset.frames), 0)
    const { updates, globalBatch: batch } = plan.training
    const times = (updates * batch) / frames
    if (frames === 0 || (times <= MOST && times >= LEAST)) return
    const related = plan.datasets.map((dataset, index) => ({ at: ['datasets', index], note: `'${dataset.name}'` }))
    const at = ['training', 'updates']
    if (times > MOST)
      report({ message: 'often', at, data: { updates, batch, frames, times: Math.round(times) }, related })
    else
      report({
        message: 'hardly',
        at,
        data: { updates, batch, frames, percent: String(Number((100 * times).toPrecision(2))) },
        related,
      })
  },
})
