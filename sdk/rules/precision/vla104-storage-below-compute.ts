import { defineRule } from '../rule.ts'

const BITS = { fp64: 64, fp32: 32, bf16: 16 } as const

export const storageBelowCompute = defineRule({
  id: 'VLA104',
  name: 'storage-below-compute',
  area: 'precision',
  severity: 'error',
  since: '0.1.0',
  summary: 'Under ddp a module is not stored in a lower precision than it computes in.',
  why: 'DDP computes with the stored parameters themselves, so it cannot raise their precision; only FSDP2 gathers them in another dtype.',
  fix: 'Compute in the dtype in which the module is stored, store it in the dtype in which it computes, or use fsdp2().',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'torch 2.11, fully_shard',
      at: 'https://docs.pytorch.org/docs/2.11/distributed.fsdp.fully_shard.html',
      locator: 'MixedPrecisionPolicy.param_dtype; DistributedDataParallel has no counterpart',
    },
  ],
  messages: { below: "The module '{module}' is stored in {storage} but computes in {dtype}, which ddp cannot do." },
  valid: [
    {
      caption: 'fsdp2 gathers in the compute dtype.',
      code: `modules: { vision: { freeze: 'always', dtype: 'fp32', storage: 'bf16' } },\nparallel: fsdp2(),`,
    },
    {
      caption: 'Stored as it computes.',
      code: `modules: { vision: { freeze: 'always', dtype: 'bf16', storage: 'bf16' } },\nparallel: ddp(),`,
    },
  ],
  invalid: [
    {
      caption: 'bf16 parameters, fp32 arithmetic.',
      code: `modules: { vision: { freeze: 'always', dtype: 'fp32', storage: 'bf16' } },\nparallel: ddp(),`,
    },
  ],
  check({ plan, path, each, report }) {
    if (plan.parallel.kind !== 'ddp') return
    each(plan.modules, (module, index) => {
      if (BITS[module.storage] >= BITS[module.dtype]) return
      const at = ['modules', index, 'dtype']
      report({
        message: 'below',
        at,
        data: { module: module.name, storage: module.storage, dtype: module.dtype },
        related: [
          { at: ['modules', index, 'storage'], note: 'how it is stored' },
          { at: ['parallel', 'kind'], note: 'ddp is chosen here' },
        ],
        fixes: [
          {
            label: `Compute in '${module.storage}'`,
            kind: 'suggestion',
            edits: [{ kind: 'set', path: path(at), value: module.storage }],
          },
        ],
      })
    })
  },
})
