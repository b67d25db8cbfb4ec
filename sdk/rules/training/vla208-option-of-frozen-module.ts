import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const optionOfFrozenModule = defineRule({
  id: 'VLA208',
  name: 'option-of-frozen-module',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A module that never trains has neither a learning rate nor weight decay.',
  why: 'The option has no effect. Whoever reads the declaration believes that the module trains.',
  fix: 'Remove the option, or let the module train.',
  suppress: { allowed: true, when: 'The module is frozen for one experiment and its values are to stay written down.' },
  sources: [
    {
      title: 'LeRobot issue 4018',
      at: 'https://github.com/huggingface/lerobot/issues/4018',
      locator: 'what is frozen and what is not must be said; there, layers meant to be frozen were trained',
    },
  ],
  messages: { idle: "'{option}' has no effect: the module '{module}' never trains." },
  valid: [{ caption: 'Frozen, nothing said.', code: `modules: { vision: { freeze: 'always' } },` }],
  invalid: [{ caption: 'Frozen, with a learning rate.', code: `modules: { vision: { freeze: 'always', lr: 1e-4 } },` }],
  check(context) {
    const { plan, each, report } = context
    each(plan.modules, (module, index) => {
      if (everTrains(module, plan.training.updates)) return
      const isPhased = module.freeze.some((phase) => phase.trains !== 'none')
      if (isPhased) return // a phase that never comes has a finding of its own
      for (const option of ['lr', 'weightDecay'] as const) {
        const at = ['modules', index, option]
        const path = ['modules', module.name, option]
        const isOwn = context.path(at)[0] === 'modules' // not the default for all modules
        if (!context.declared(at) || !isOwn) continue
        report({
          message: 'idle',
          at,
          path,
          on: 'key',
          data: { option, module: module.name },
          related: [{ at: ['modules', index, 'freeze'], note: 'frozen here' }],
          fixes: [{ label: `Remove '${option}'`, kind: 'safe', edits: [{ kind: 'remove', path }] }],
        })
      }
    })
  },
})
