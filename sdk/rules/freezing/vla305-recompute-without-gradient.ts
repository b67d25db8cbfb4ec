import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

/** What lies below a module: where its inputs come from. */
const BELOW: Readonly<Record<string, readonly string[]>> = {
  vision: [],
  projector: ['vision'],
  language: ['vision', 'projector'],
  action: ['vision', 'projector', 'language'],
}

export const recomputeWithoutGradient = defineRule({
  id: 'VLA305',
  name: 'recompute-without-gradient',
  area: 'freezing',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Recompute is for modules through which a gradient flows.',
  why: 'A frozen module with nothing trainable below it keeps no activations for the backward pass, so there is nothing to drop and recompute.',
  fix: 'Remove `recompute` here.',
  suppress: { allowed: true, when: 'The module is frozen for one experiment only.' },
  sources: [
    {
      title: 'torch 2.11, activation checkpointing',
      at: 'https://docs.pytorch.org/docs/2.11/checkpoint.html',
      locator: 'activations are kept only for tensors that want a gradient',
    },
  ],
  messages: { idle: "The module '{module}' never trains, and nothing below it does: no activations of it are kept." },
  valid: [
    {
      caption: 'Frozen trunk above a trained projector: the gradient passes through.',
      code: `modules: { language: { freeze: 'always', recompute: 'full' } },`,
    },
    { caption: 'Unfrozen later.', code: `modules: { vision: { freeze: until('50%'), recompute: 'full' } },` },
  ],
  invalid: [{ caption: 'A frozen tower.', code: `modules: { vision: { freeze: 'always', recompute: 'full' } },` }],
  check({ plan, declared, each, report }) {
    const { updates } = plan.training
    each(plan.modules, (module, index) => {
      const at = ['modules', index, 'recompute']
      if (module.recompute === 'none' || module.blocks.length === 0 || !declared(at) || everTrains(module, updates))
        return
      const below = BELOW[module.name] ?? plan.modules.map(({ name }) => name)
      if (plan.modules.some((other) => below.includes(other.name) && everTrains(other, updates))) return
      const path = ['modules', module.name, 'recompute']
      report({
        message: 'idle',
        at,
        path,
        data: { module: module.name },
        related: [{ at: ['modules', index, 'freeze'], note: 'frozen here' }],
        fixes: [{ label: 'Remove `recompute`', kind: 'safe', edits: [{ kind: 'remove', path }] }],
      })
    })
  },
})
