import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const mastersBelowFp32 = defineRule({
  id: 'VLA103',
  name: 'masters-below-fp32',
  area: 'precision',
  severity: 'error',
  since: '0.1.0',
  summary: 'What trains is stored in fp32 (fp64 under fp64 compute).',
  why: 'bf16 has 8 bits of significand: an update smaller than 1/256 of a weight rounds to nothing, so training stalls without a sign.',
  fix: "Leave `storage` out. Frozen parameters may be stored in 'bf16'; adapters keep fp32 whatever their base is stored in.",
  suppress: { allowed: false, because: 'The failure is silent, and the generated run refuses it.' },
  sources: [
    {
      title: 'Zamirai et al. 2020, Revisiting BFloat16 Training',
      at: 'https://arxiv.org/abs/2010.06192',
      locator: 'section 3: nearest rounding of weight updates cancels small updates',
    },
    {
      title: 'torch 2.11',
      at: 'torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py',
      locator: '_init_mp_dtypes: one original dtype per unit',
    },
  ],
  messages: {
    low: "The module '{module}' trains, but its parameters are stored in {storage}; its optimizer needs {master}.",
  },
  valid: [
    {
      caption: 'A frozen module may be stored in bf16.',
      code: `modules: { language: { freeze: 'always', dtype: 'bf16', storage: 'bf16' } },`,
    },
    {
      caption: 'The base of adapters is frozen.',
      code: `modules: { language: { storage: 'bf16', dtype: 'bf16', adapt: lora({ rank: 8 }) } },`,
    },
  ],
  invalid: [
    { caption: 'A trained module in bf16.', code: `modules: { language: { dtype: 'bf16', storage: 'bf16' } },` },
  ],
  check({ plan, path, declared, each, report }) {
    each(plan.modules, (module, index) => {
      if (plan.hardware.kind === 'gpus' && module.storage === 'fp64') return // VLA102
      const master = module.dtype === 'fp64' ? 'fp64' : 'fp32'
      if (module.adapt !== null || module.storage === master || !everTrains(module, plan.training.updates)) return
      const at = ['modules', index, 'storage']
      report({
        message: 'low',
        at,
        data: { module: module.name, storage: module.storage, master },
        related: [{ at: ['modules', index, 'freeze'], note: 'when it trains' }],
        fixes: declared(at)
          ? [{ label: 'Remove `storage`', kind: 'safe', edits: [{ kind: 'remove', path: path(at) }] }]
          : [],
      })
    })
  },
})
