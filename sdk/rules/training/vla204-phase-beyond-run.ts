import { defineRule } from '../rule.ts'

export const phaseBeyondRun = defineRule({
  id: 'VLA204',
  name: 'phase-beyond-run',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'Every phase of a freeze schedule begins within the run.',
  why: 'The phase never comes: a module that was to be unfrozen stays frozen to the end, and nothing says so.',
  fix: 'Let the phase begin earlier, or lengthen the run.',
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: 'phase_at: the phase of an update, for updates below the last',
    },
  ],
  messages: { beyond: "A phase of '{module}' begins at update {from}, but the run ends after {updates}." },
  valid: [{ caption: 'At 75 % of the run.', code: `modules: { vision: { freeze: until('75%') } },` }],
  invalid: [
    { caption: 'Written for a longer run.', code: `modules: { vision: { freeze: until(37_500) } },` },
    { caption: 'At its very end.', code: `modules: { vision: { freeze: until('100%') } },` },
  ],
  check({ plan, path, each, report }) {
    const { updates } = plan.training
    each(plan.modules, (module, index) => {
      const phase = module.freeze.findIndex(({ from }) => from >= updates)
      if (phase < 0) return
      const freeze = path(['modules', index, 'freeze'])
      report({
        message: 'beyond',
        at: ['modules', index, 'freeze'],
        data: { module: module.name, from: module.freeze[phase]?.from ?? 0, updates },
        fix: `Begin it before update ${String(updates)}, for instance as a share of the run ('75%').`,
        related: [{ at: ['training', 'updates'], note: 'length of the run' }],
        fixes: [],
        path: freeze,
      })
    })
  },
})
