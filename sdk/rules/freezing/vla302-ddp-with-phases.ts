import { defineRule } from '../rule.ts'

export const ddpWithPhases = defineRule({
  id: 'VLA302',
  name: 'ddp-with-phases',
  area: 'freezing',
  severity: 'error',
  since: '0.1.0',
  summary: 'Under ddp what trains does not change during the run.',
  why: 'DDP hooks the parameters that want a gradient when it is built. What unfreezes later is trained by each process on its own data and never synchronised, without an error; what freezes later makes it wait for gradients that never come.',
  fix: 'Use fsdp2(), which reads `requires_grad` at every step.',
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'torch 2.11, DistributedDataParallel',
      at: 'torch/nn/parallel/distributed.py',
      locator: '_build_params_for_reducer: only parameters with requires_grad',
    },
    {
      title: 'generated runtime, test of the twin run',
      at: 'templates/runtime/vla_runtime/sharding.py',
      locator: '_replicate',
    },
  ],
  messages: { changes: "Under ddp, what trains of '{module}' changes at update {update}." },
  valid: [
    { caption: 'Frozen throughout.', code: `modules: { vision: { freeze: 'always' } },\nparallel: ddp(),` },
    {
      caption: 'fsdp2 follows a schedule.',
      code: `modules: { vision: { freeze: until('50%') } },\nparallel: fsdp2(),`,
    },
  ],
  invalid: [
    { caption: 'Unfrozen half-way.', code: `modules: { vision: { freeze: until('50%') } },\nparallel: ddp(),` },
  ],
  check({ plan, each, report }) {
    if (plan.parallel.kind !== 'ddp') return
    const { updates } = plan.training
    each(plan.modules, (module, index) => {
      const first = JSON.stringify(module.freeze[0]?.trains)
      const change = module.freeze.find((phase) => JSON.stringify(phase.trains) !== first && phase.from < updates)
      if (change === undefined) return
      report({
        message: 'changes',
        at: ['parallel', 'kind'],
        path: ['parallel'],
        data: { module: module.name, update: change.from },
        related: [{ at: ['modules', index, 'freeze'], note: `the schedule of '${module.name}'` }],
        fixes: [
          {
            label: 'Use fsdp2()',
            kind: 'safe',
            edits: [{ kind: 'set', path: ['parallel'], value: { kind: 'fsdp2' } }],
          },
        ],
      })
    })
  },
})
