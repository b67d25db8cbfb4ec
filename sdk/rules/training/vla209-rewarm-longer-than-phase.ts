import { defineRule } from '../rule.ts'

export const rewarmLongerThanPhase = defineRule({
  id: 'VLA209',
  name: 'rewarm-longer-than-phase',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A re-warm-up ends within its phase.',
  why: 'What was unfrozen never trains at its declared learning rate before the next phase or the end of the run.',
  fix: 'Shorten the re-warm-up, or let the phase begin earlier.',
  suppress: { allowed: true, when: 'A rate that rises to the end of the phase is what you want.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/optim.py',
      locator: 'rewarm: linear from zero over the given updates',
    },
  ],
  messages: { long: "The re-warm-up of '{module}' takes {rewarm} updates, but its phase has {length}." },
  valid: [{ caption: '50 of 250 updates.', code: `modules: { vision: { freeze: until('75%', { rewarm: 50 }) } },` }],
  invalid: [
    { caption: '500 of 250 updates.', code: `modules: { vision: { freeze: until('75%', { rewarm: 500 }) } },` },
  ],
  check({ plan, path, each, report }) {
    const { updates } = plan.training
    each(plan.modules, (module, index) => {
      module.freeze.forEach((phase, number) => {
        const length = Math.min(module.freeze[number + 1]?.from ?? updates, updates) - phase.from
        if (phase.rewarm <= length || length <= 0) return
        report({
          message: 'long',
          at: ['modules', index, 'freeze'],
          path: [...path(['modules', index, 'freeze'])],
          data: { module: module.name, rewarm: phase.rewarm, length },
          fix: `Use a re-warm-up of at most ${String(length)} updates; ${String(Math.max(1, Math.round(length / 10)))} would be a tenth of the phase.`,
        })
      })
    })
  },
})
