import { defineRule } from '../rule.ts'

export const holdoutNotInDataset = defineRule({
  id: 'VLA508',
  name: 'holdout-not-in-dataset',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'Episodes exist that are named, and some are left to train on.',
  why: 'The run stops on the target, or has nothing to train on.',
  fix: "Name episodes of the dataset, or give a share ('5%').",
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/data.py',
      locator: '_Source: held-out episodes do not exist; every episode is held out',
    },
  ],
  messages: {
    outside: "'{dataset}' has no episode {episode}: its episodes are 0 to {last}.",
    notSelected: "Episode {episode} of '{dataset}' is held out, but not among its `episodes`.",
    all: "Every episode of '{dataset}' is held out: nothing is left to train on.",
  },
  valid: [{ caption: 'Two of a hundred.', code: `data: lerobotDataset({ root: 'data/reach', holdout: [98, 99] }),` }],
  invalid: [
    { caption: 'Counted from 1.', code: `data: lerobotDataset({ root: 'data/reach', holdout: [99, 100] }),` },
    { caption: 'All of them.', code: `data: lerobotDataset({ root: 'data/reach', holdout: '100%' }),` },
    {
      caption: 'Not among those that are used.',
      code: `data: lerobotDataset({ root: 'data/reach', episodes: [0, 1, 2], holdout: [3] }),`,
    },
    { caption: 'Used, but not there.', code: `data: lerobotDataset({ root: 'data/reach', episodes: [0, 1, 120] }),` },
  ],
  check({ plan, known, each, path, report }) {
    each(plan.datasets, (dataset, index) => {
      const held = known(dataset.holdout)
      const { selected } = dataset
      const count = known(dataset.episodes)
      const last = count - 1
      const at = ['datasets', index, 'holdout']
      const outsideSelected = selected?.findIndex((episode) => episode >= count) ?? -1
      if (outsideSelected >= 0) {
        const selectedPath = path(['datasets', index, 'selected'])
        report({
          message: 'outside',
          at: ['datasets', index, 'selected'],
          path: [...selectedPath, outsideSelected],
          data: { dataset: dataset.name, episode: String(selected?.[outsideSelected]), last: String(last) },
        })
        return
      }
      const outside = held.find((episode) => episode >= count)
      if (outside !== undefined) {
        report({
          message: 'outside',
          at,
          path: [...path(at), held.indexOf(outside)],
          data: { dataset: dataset.name, episode: String(outside), last: String(last) },
        })
        return
      }
      const foreign = selected === null ? undefined : held.find((episode) => !selected.includes(episode))
      if (foreign !== undefined) {
        report({
          message: 'notSelected',
          at,
          path: [...path(at), held.indexOf(foreign)],
          data: { dataset: dataset.name, episode: String(foreign) },
          related: [{ at: ['datasets', index, 'selected'], note: 'the episodes that are used' }],
        })
        return
      }
      if (held.length > 0 && new Set(held).size >= (selected === null ? count : new Set(selected).size))
        report({ message: 'all', at, data: { dataset: dataset.name } })
    })
  },
})
