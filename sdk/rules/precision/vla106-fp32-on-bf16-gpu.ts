import { findGpu } from '../../catalog/gpus.ts'
import { defineRule } from '../rule.ts'

/** Below this many parameters a module's share of the time does not matter. */
const LARGE = 2e8

export const fp32OnBf16Gpu = defineRule({
  id: 'VLA106',
  name: 'fp32-on-bf16-gpu',
  area: 'precision',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A large module computes in bf16 where the GPU has it.',
  why: 'The tensor cores of these GPUs do bf16 at eight to sixteen times the rate of fp32, and activations take half of the memory. Masters, gradients and their sums are in fp32 either way.',
  fix: "Use dtype: 'bf16', and keep fp32 for small heads that need it.",
  suppress: { allowed: true, when: 'You have measured that this module does not train in bf16.' },
  sources: [
    {
      title: 'NVIDIA H100',
      at: 'https://www.nvidia.com/en-us/data-center/h100/',
      locator: 'FP32 67 teraFLOPS, BFLOAT16 tensor core 989 without sparsity',
    },
    {
      title: 'LeRobot issue 3259',
      at: 'https://github.com/huggingface/lerobot/issues/3259',
      locator: 'a whole vision tower was kept in fp32',
    },
  ],
  messages: { slow: "The module '{module}' ({count} parameters) computes in fp32 on {gpu}, which has bf16." },
  valid: [
    {
      caption: 'A small head in fp32.',
      code: `hardware: gpus('H100-SXM-80GB', { perNode: 2 }),\nmodules: { action: { dtype: 'fp32' } },`,
    },
  ],
  invalid: [
    {
      caption: 'Seven billion parameters in fp32.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('H100-SXM-80GB', { perNode: 8 }),
modules: { language: { dtype: 'fp32' } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  check({ plan, path, known, each, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus' || findGpu(hardware.gpu)?.bf16 !== true) return
    each(plan.modules, (module, index) => {
      if (module.dtype !== 'fp32') return
      const count = known(module.count)
      if (count < LARGE) return
      const at = ['modules', index, 'dtype']
      report({
        message: 'slow',
        at,
        data: { module: module.name, count, gpu: hardware.gpu },
        related: [{ at: ['hardware', 'gpu'], note: 'the GPU is declared here' }],
        fixes: [
          { label: "Compute in 'bf16'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: 'bf16' }] },
        ],
      })
    })
  },
})
