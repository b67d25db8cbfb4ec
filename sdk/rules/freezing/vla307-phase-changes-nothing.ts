import { defineRule } from '../rule.ts'

export const phaseChangesNothing = defineRule({
  id: 'VLA307',
  name: 'phase-changes-nothing',
  area: 'freezing',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A phase trains something else than the one before it.',
  why: 'The phase has no effect, and a re-warm-up that it names does not happen, since nothing is unfrozen.',
  fix: 'Remove the phase, or say what it should train.',
  suppress: { allowed: true, when: 'The phases are generated and a boundary without effect does no harm.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: 'enter_phase: only what was just unfrozen is warmed up again',
    },
  ],
  messages: { same: "The phase of '{module}' from update {from} on trains the same as the one before it." },
  valid: [
    {
      caption: 'Frozen, then trained.',
      code: `modules: { vision: { freeze: [phase({ from: 0, train: 'none' }), phase({ from: '50%', train: 'all' })] } },`,
    },
  ],
  invalid: [
    {
      caption: 'Trained, then trained.',
      code: `modules: { vision: { freeze: [phase({ from: 0, train: 'all' }), phase({ from: '50%', train: 'all', rewarm: 50 })] } },`,
    },
  ],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      module.freeze.forEach((phase, number) => {
        const before = module.freeze[number - 1]
        if (before === undefined || JSON.stringify(before.trains) !== JSON.stringify(phase.trains)) return
        report({
          message: 'same',
          at: ['modules', index, 'freeze'],
          path: ['modules', module.name, 'freeze', number, 'train'],
          data: { module: module.name, from: phase.from },
          fixes: [
            {
              label: 'Remove the phase',
              kind: 'safe',
              edits: [{ kind: 'remove', path: ['modules', module.name, 'freeze', number] }],
            },
          ],
        })
      })
    })
  },
})
