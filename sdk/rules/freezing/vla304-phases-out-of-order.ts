import { defineRule } from '../rule.ts'

export const phasesOutOfOrder = defineRule({
  id: 'VLA304',
  name: 'phases-out-of-order',
  area: 'freezing',
  severity: 'error',
  since: '0.1.0',
  summary: 'The phases of a freeze schedule begin at 0 and rise.',
  why: 'Before the first phase it is not said what trains, and of two phases that begin together only one can hold.',
  fix: 'Begin the first phase at 0 and let every following one begin later.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: '_check_phases: `until` must rise from above 0',
    },
  ],
  messages: {
    start: "The first phase of '{module}' begins at update {from}; what trains before is not said.",
    order: "A phase of '{module}' begins at update {from}, not after the one before it (update {before}).",
  },
  valid: [
    {
      caption: 'From 0, then rising.',
      code: `modules: { vision: { freeze: [phase({ from: 0, train: 'none' }), phase({ from: '50%', train: lastLayers(1) }), phase({ from: '75%', train: 'all' })] } },`,
    },
  ],
  invalid: [
    { caption: 'Begins late.', code: `modules: { vision: { freeze: [phase({ from: 100, train: 'all' })] } },` },
    {
      caption: 'Falls.',
      code: `modules: { vision: { freeze: [phase({ from: 0, train: 'none' }), phase({ from: 500, train: 'all' }), phase({ from: '20%', train: 'none' })] } },`,
    },
    {
      caption: 'Two at once: 10 % of 1,000 updates is 100.',
      code: `modules: { vision: { freeze: [phase({ from: 0, train: 'none' }), phase({ from: 100, train: 'all' }), phase({ from: '10%', train: 'none' })] } },`,
    },
  ],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      const at = ['modules', index, 'freeze']
      const froms = module.freeze.map((phase) => phase.from)
      const [first = 0] = froms
      if (first !== 0) {
        const path = ['modules', module.name, 'freeze', 0, 'from']
        report({
          message: 'start',
          at,
          path,
          data: { module: module.name, from: first },
          fixes: [
            { label: 'Begin the first phase at 0', kind: 'suggestion', edits: [{ kind: 'set', path, value: 0 }] },
          ],
        })
      }
      const wrong = froms.findIndex((from, number) => number > 0 && from <= (froms[number - 1] ?? 0))
      if (wrong < 0) return
      report({
        message: 'order',
        at,
        path: ['modules', module.name, 'freeze', wrong, 'from'],
        data: { module: module.name, from: froms[wrong] ?? 0, before: froms[wrong - 1] ?? 0 },
        related: [{ at, path: ['modules', module.name, 'freeze', wrong - 1, 'from'], note: 'the phase before it' }],
      })
    })
  },
})
