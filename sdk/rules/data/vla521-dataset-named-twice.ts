import { defineRule } from '../rule.ts'

export const datasetNamedTwice = defineRule({
  id: 'VLA521',
  name: 'dataset-named-twice',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'The datasets of a mixture have different names.',
  why: 'A name is the key of the statistics in every checkpoint and package: one robot would be un-normalised with the statistics of another.',
  fix: 'Give each dataset a `name` of its own.',
  suppress: { allowed: false, because: 'The failure is silent, and shows as wrong motions on a robot.' },
  sources: [
    {
      title: 'OpenVLA issue 87',
      at: 'https://github.com/openvla/openvla/issues/87',
      locator: 'unnorm_key picks the statistics by name',
    },
  ],
  messages: { twice: "Two datasets are named '{name}'." },
  valid: [
    {
      caption: 'Two names.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach', name: 'reach' }), weight: 1 }, { from: lerobotDataset({ root: 'data/push', name: 'push' }), weight: 1 }],`,
      lock: { datasets: { 'data/push': { $copy: 'data/reach' } } },
    },
  ],
  invalid: [
    {
      caption: 'One name.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach', name: 'arm' }), weight: 1 }, { from: lerobotDataset({ root: 'data/push', name: 'arm' }), weight: 1 }],`,
      lock: { datasets: { 'data/push': { $copy: 'data/reach' } } },
    },
  ],
  check({ plan, each, path, report }) {
    const seen = new Map<string, number>()
    each(plan.datasets, ({ name }, index) => {
      const first = seen.get(name)
      if (first === undefined) {
        seen.set(name, index)
        return
      }
      const at = ['datasets', index, 'name']
      const free = Array.from({ length: plan.datasets.length }, (_, count) => `${name}-${String(count + 2)}`).find(
        (candidate) => plan.datasets.every((d) => d.name !== candidate),
      )
      report({
        message: 'twice',
        at,
        data: { name },
        related: [{ at: ['datasets', first, 'name'], note: 'the same name' }],
        fixes:
          free === undefined
            ? []
            : [
                {
                  label: `Rename to '${free}'`,
                  kind: 'suggestion',
                  edits: [{ kind: 'set', path: path(at), value: free }],
                },
              ],
      })
    })
  },
})
