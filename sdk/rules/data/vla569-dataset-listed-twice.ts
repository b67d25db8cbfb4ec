import { isKnown, type Pipeline } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

type Dataset = Pipeline['datasets'][number]

export const datasetListedTwice = defineRule({
  id: 'VLA569',
  name: 'dataset-listed-twice',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'No episode is in the mixture twice.',
  why: 'Its weights add up without being said anywhere, and an episode that one entry holds out is trained on through the other: the held-out loss then praises memorising.',
  fix: 'List the dataset once with the sum of the weights, or give the entries `episodes` that do not overlap.',
  suppress: { allowed: true, when: 'The two entries differ in cameras on purpose, and nothing is held out.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/datasets.py',
      locator: 'Source: each entry of the mixture holds out its own episodes',
    },
  ],
  messages: {
    twice: "'{dataset}' and '{other}' are the same dataset: its share is the sum of both, {share}.",
    leak: "'{dataset}' trains on episode {episode} of the dataset, which '{other}' holds out.",
  },
  valid: [
    {
      caption: 'Episodes that do not overlap.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach', name: 'clean', episodes: [0, 1, 2] }), weight: 2 }, { from: lerobotDataset({ root: 'data/reach', name: 'noisy', episodes: [3, 4, 5] }), weight: 1 }],`,
    },
  ],
  invalid: [
    {
      caption: 'Once for each of two weights.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach', name: 'a' }), weight: 2 }, { from: lerobotDataset({ root: 'data/reach', name: 'b' }), weight: 1 }],`,
    },
    {
      caption: 'What the first holds out, the second trains on.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach', name: 'a', holdout: [0, 1] }), weight: 2 }, { from: lerobotDataset({ root: 'data/reach', name: 'b' }), weight: 1 }],`,
    },
  ],
  check({ plan, each, report }) {
    const total = plan.datasets.reduce((sum, { weight }) => sum + weight, 0)
    each(plan.datasets, (dataset, index) => {
      const first = plan.datasets.slice(0, index).findIndex((other) => isSame(dataset, other) && meets(dataset, other))
      const other = plan.datasets[first]
      if (other === undefined) return
      const at = ['datasets', index, dataset.root === null ? 'repo' : 'root']
      const related = [{ at: ['datasets', first, 'name'], note: `'${other.name}'` }]
      const leak = leaks(dataset, other) ?? leaks(other, dataset)
      if (leak !== undefined) report({ message: 'leak', at, data: leak, related })
      else
        report({
          message: 'twice',
          at,
          data: {
            dataset: dataset.name,
            other: other.name,
            share: `${(100 * (dataset.weight / total + other.weight / total)).toFixed(0)} %`,
          },
          related,
        })
    })
  },
})

function isSame(a: Dataset, b: Dataset): boolean {
  return a.repo === b.repo && a.root === b.root && a.revision === b.revision
}

function meets(a: Dataset, b: Dataset): boolean {
  return a.selected === null || b.selected === null || a.selected.some((episode) => b.selected?.includes(episode))
}

/** An episode that one trains on and the other holds out. */
function leaks(dataset: Dataset, other: Dataset): { dataset: string; other: string; episode: number } | undefined {
  if (!isKnown(dataset.holdout) || !isKnown(other.holdout)) return undefined
  const own = dataset.holdout
  const episode = other.holdout.find(
    (held) => !own.includes(held) && (dataset.selected === null || dataset.selected.includes(held)),
  )
  return episode === undefined ? undefined : { dataset: dataset.name, other: other.name, episode }
}
