import { defineRule } from '../rule.ts'

export const datasetSmallerThanBatch = defineRule({
  id: 'VLA212',
  name: 'dataset-smaller-than-batch',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The datasets together have at least as many frames as a global batch.',
  why: 'Every update would see the same frame several times: the batch costs as declared and is worth less.',
  fix: 'Use a smaller global batch, or record more.',
  suppress: { allowed: true, when: 'Over-fitting a few frames is the test.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/training/strategies/base_strategy.py',
      locator: 'epoch = (step + 1) // (len(dataset) // global_batch_size): divides by zero below one batch',
    },
  ],
  messages: { small: 'A global batch of {batch} samples is larger than all frames of the data ({frames}).' },
  valid: [{ caption: '64 of 6,000 frames.', code: `name: 'enough',` }],
  invalid: [
    {
      caption: '64 of 50 frames.',
      code: `name: 'little',`,
      lock: { datasets: { 'data/reach': { episodes: 2, frames: 50 } } },
    },
  ],
  check({ plan, known, report }) {
    const frames = plan.datasets.reduce((sum, dataset) => sum + known(dataset.frames), 0)
    const batch = plan.training.globalBatch
    if (frames >= batch) return
    report({
      message: 'small',
      at: ['training', 'globalBatch'],
      data: { batch, frames },
      related: plan.datasets.map((dataset, index) => ({ at: ['datasets', index], note: `'${dataset.name}'` })),
    })
  },
})
