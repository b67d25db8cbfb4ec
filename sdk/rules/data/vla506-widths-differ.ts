import { defineRule } from '../rule.ts'

export const widthsDiffer = defineRule({
  id: 'VLA506',
  name: 'widths-differ',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'All datasets of a mixture have actions, and states, of one width.',
  why: 'The model has one action decoder: samples of different widths do not fit into one batch.',
  fix: 'Leave the dataset out, or bring its features to a common width when recording or converting.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'OpenVLA issue 48',
      at: 'https://github.com/openvla/openvla/issues/48',
      locator: 'other action encodings and bimanual robots',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/data.py', locator: '_check_width' },
  ],
  messages: { differ: "The {role} of '{dataset}' has {width} dimensions, that of '{other}' {otherWidth}." },
  valid: [
    {
      caption: 'Two datasets of one robot.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 2 }, { from: lerobotDataset({ root: 'data/push' }), weight: 1 }],`,
      lock: { datasets: { 'data/push': { $copy: 'data/reach' } } },
    },
  ],
  invalid: [
    {
      caption: 'A seven-joint robot beside one with four.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 2 }, { from: lerobotDataset({ root: 'data/push' }), weight: 1 }],`,
      lock: {
        datasets: {
          'data/push': {
            $copy: 'data/reach',
            features: { action: { shape: [7] } },
            statistics: { action: { min: [-1, -1, -1, -1, -1, -1, 0], max: [1, 1, 1, 1, 1, 1, 1] } },
          },
        },
      },
    },
  ],
  check({ plan, known, each, report }) {
    for (const role of ['state', 'action'] as const) {
      let first: { name: string; width: number; index: number } | undefined
      each(plan.datasets, (dataset, index) => {
        const width = known(role === 'state' ? dataset.stateDim : dataset.actionDim)
        if (first === undefined) first = { name: dataset.name, width, index }
        else if (width !== first.width) {
          report({
            message: 'differ',
            at: ['datasets', index, role],
            data: { role, dataset: dataset.name, width, other: first.name, otherWidth: first.width },
            related: [{ at: ['datasets', first.index, role], note: `the ${role} of '${first.name}'` }],
          })
        }
      })
    }
  },
})
