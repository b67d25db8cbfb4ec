import { findGpu } from '../../catalog/gpus.ts'
import { defineRule } from '../rule.ts'

export const dtypeUnsupportedOnGpu = defineRule({
  id: 'VLA101',
  name: 'dtype-unsupported-on-gpu',
  area: 'precision',
  severity: 'error',
  since: '0.1.0',
  summary: 'The compute dtype of a module must be one that the declared GPU has.',
  why: 'GPUs before compute capability 8.0 have no bfloat16 arithmetic: kernels are missing or emulated, and the run stops or crawls.',
  fix: "Use 'fp32' on this GPU, or declare a GPU with bfloat16 (compute capability 8.0 or later).",
  suppress: { allowed: false, because: 'The failure is certain: the hardware lacks the arithmetic.' },
  sources: [
    {
      title: 'CUDA C++ Programming Guide',
      at: 'https://docs.nvidia.com/cuda/cuda-c-programming-guide/',
      locator: 'Features and technical specifications per compute capability: bfloat16 from 8.0',
    },
  ],
  messages: { unsupported: "The module '{module}' computes in {dtype}, which {gpu} does not have." },
  valid: [
    {
      caption: 'bf16 on an H100.',
      code: `hardware: gpus('H100-SXM-80GB', { perNode: 2 }),\nmodules: { language: { dtype: 'bf16' } },`,
    },
    {
      caption: 'fp32 on a V100.',
      code: `hardware: gpus('V100-SXM2-32GB', { perNode: 2 }),\nmodules: { language: { dtype: 'fp32' } },`,
    },
  ],
  invalid: [
    {
      caption: 'bf16 on a V100.',
      code: `hardware: gpus('V100-SXM2-32GB', { perNode: 2 }),\nmodules: { language: { dtype: 'bf16' } },`,
    },
    {
      caption: 'bf16 on a T4.',
      code: `hardware: gpus('T4', { perNode: 2 }),\nmodules: { action: { dtype: 'bf16' } },`,
    },
  ],
  check({ plan, path, each, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus' || findGpu(hardware.gpu)?.bf16 !== false) return
    each(plan.modules, (module, index) => {
      if (module.dtype !== 'bf16') return
      const at = ['modules', index, 'dtype']
      report({
        message: 'unsupported',
        at,
        data: { module: module.name, dtype: module.dtype, gpu: hardware.gpu },
        related: [{ at: ['hardware', 'gpu'], note: 'the GPU is declared here' }],
        fixes: [{ label: "Compute in 'fp32'", kind: 'safe', edits: [{ kind: 'set', path: path(at), value: 'fp32' }] }],
      })
    })
  },
})
