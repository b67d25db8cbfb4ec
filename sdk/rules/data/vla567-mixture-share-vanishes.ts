import { defineRule } from '../rule.ts'

export const mixtureShareVanishes = defineRule({
  id: 'VLA567',
  name: 'mixture-share-vanishes',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Each dataset of a mixture gives at least one sample per episode over the run.',
  why: 'The weight is a share of the samples, whatever the sizes of the datasets. One that is too small leaves the dataset out of the run but for a few frames, while the package still says that it was trained on it.',
  fix: 'Raise the weight, or take the dataset out.',
  suppress: { allowed: true, when: 'A few samples of it are all that you want.' },
  sources: [
    {
      title: 'StarVLA',
      at: 'https://github.com/starVLA/starVLA/blob/main/starVLA/dataloader/gr00t_lerobot/datasets.py',
      locator: 'mixture weights are clamped to a tiny value',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/order.py',
      locator: 'Order: datasets interleaved by weight',
    },
  ],
  messages: {
    few: "'{dataset}' gives {samples} of the run's {all} samples: fewer than it has episodes ({episodes}).",
  },
  valid: [
    {
      caption: 'A tenth of the samples.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 9 }, { from: lerobotDataset({ root: 'data/other' }), weight: 1 }],`,
      lock: { datasets: { 'data/other': { $copy: 'data/reach' } } },
    },
  ],
  invalid: [
    {
      caption: 'One sample in ten thousand.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 1 }, { from: lerobotDataset({ root: 'data/other' }), weight: 1e-4 }],`,
      lock: { datasets: { 'data/other': { $copy: 'data/reach' } } },
    },
  ],
  check({ plan, known, each, report }) {
    if (plan.datasets.length < 2) return
    const all = plan.training.updates * plan.training.globalBatch
    const sum = plan.datasets.reduce((total, { weight }) => total + weight, 0)
    each(plan.datasets, (dataset, index) => {
      const samples = Math.floor((all * dataset.weight) / sum)
      const episodes = dataset.selected?.length ?? known(dataset.episodes)
      if (samples >= Math.min(episodes, all / plan.datasets.length)) return // a run that is too short for all of them: VLA221
      const enough = (episodes / all) * (sum - dataset.weight)
      report({
        message: 'few',
        at: ['datasets', index, 'weight'],
        data: { dataset: dataset.name, samples, all, episodes },
        fix: `A weight of ${String(Number(enough.toPrecision(2)))} gives one sample per episode; or take the dataset out.`,
      })
    })
  },
})
