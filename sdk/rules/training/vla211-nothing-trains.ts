import { boundaries, phaseAt } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const nothingTrains = defineRule({
  id: 'VLA211',
  name: 'nothing-trains',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'At every update something trains.',
  why: 'Without a parameter that wants a gradient the backward pass has nothing to do and raises.',
  fix: 'Let at least one module train in this phase.',
  suppress: { allowed: false, because: 'The failure is certain: the backward pass raises.' },
  sources: [
    {
      title: 'torch 2.11, DistributedDataParallel',
      at: 'torch/nn/parallel/distributed.py',
      locator: '"not any(p.requires_grad": raises without a trainable parameter',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: '_check_something_trains',
    },
  ],
  messages: {
    always: 'Every module is frozen: nothing trains.',
    phase: 'From update {from} to {to} every module is frozen: nothing trains.',
  },
  valid: [
    {
      caption: 'The action head trains throughout.',
      code: `modules: { vision: { freeze: 'always' }, language: { freeze: 'always' } },`,
    },
  ],
  invalid: [
    {
      caption: 'All frozen.',
      code: `modules: { vision: { freeze: 'always' }, projector: { freeze: 'always' }, language: { freeze: 'always' }, action: { freeze: 'always' } },`,
      also: ['VLA308'],
    },
    {
      caption: 'Nothing before half of the run.',
      code: `modules: { vision: { freeze: 'always' }, projector: { freeze: until('50%') }, language: { freeze: 'always' }, action: { freeze: until('60%') } },`,
    },
  ],
  check({ plan, report }) {
    if (plan.modules.length === 0) return // VLA532
    const { updates } = plan.training
    const moments = boundaries(plan)
    const idle = (update: number): boolean =>
      plan.modules.every((module) => (phaseAt(module, update)?.trains ?? 'none') === 'none')
    const start = moments.findIndex(idle)
    if (start < 0) return
    const end = moments.findIndex((moment, index) => index > start && !idle(moment))
    const from = moments[start] ?? 0
    const to = end < 0 ? updates : (moments[end] ?? updates)
    const frozen = plan.modules.map((module, index) => ({
      at: ['modules', index, 'freeze'],
      note: `'${module.name}' is frozen then`,
    }))
    if (from === 0 && to === updates)
      report({ message: 'always', at: ['modules'], path: ['modules'], on: 'key', data: {}, related: frozen })
    else
      report({ message: 'phase', at: ['modules'], path: ['modules'], on: 'key', data: { from, to }, related: frozen })
  },
})
