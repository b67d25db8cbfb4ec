import { defineRule } from '../rule.ts'

export const fp64OnGpus = defineRule({
  id: 'VLA102',
  name: 'fp64-on-gpus',
  area: 'precision',
  severity: 'error',
  since: '0.1.0',
  summary: 'fp64 exists on cpus alone, where it verifies a pipeline.',
  why: 'Consumer and inference GPUs do fp64 at 1/64 of the fp32 rate, attention has no fp64 kernel that saves memory, and optimizer state doubles.',
  fix: "Use 'bf16' or 'fp32'; to verify numerics, declare cpus({ processes: 2 }) and a small model.",
  suppress: { allowed: false, because: 'The waste is certain: what fp64 shows is seen on cpus at no cost.' },
  sources: [
    {
      title: 'CUDA C++ Programming Guide',
      at: 'https://docs.nvidia.com/cuda/cuda-c-programming-guide/',
      locator: 'Arithmetic instructions: throughput of 64-bit floating point, 2 per SM and clock on 8.6 and 8.9',
    },
  ],
  messages: {
    fp64: "The module '{module}' computes in fp64 on {gpu}.",
    storage: "The parameters of '{module}' rest in fp64 on {gpu}.",
  },
  valid: [
    {
      caption: 'fp64 on cpus.',
      code: `modules: { vision: { dtype: 'fp64' }, projector: { dtype: 'fp64' }, language: { dtype: 'fp64' }, action: { dtype: 'fp64' } },`,
    },
  ],
  invalid: [
    {
      caption: 'fp64 on an A100.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 2 }),\nmodules: { language: { dtype: 'fp64' } },`,
    },
    {
      caption: 'Parameters in fp64 on an A100.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 2 }),\nmodules: { language: { storage: 'fp64' } },`,
    },
  ],
  check({ plan, path, declared, each, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus') return
    const { gpu } = hardware
    const related = [{ at: ['hardware', 'gpu'], note: 'the GPU is declared here' }]
    each(plan.modules, (module, index) => {
      const dtype = ['modules', index, 'dtype']
      const storage = ['modules', index, 'storage']
      if (module.dtype === 'fp64')
        report({
          message: 'fp64',
          at: dtype,
          data: { module: module.name, gpu },
          related,
          fixes: [
            { label: "Compute in 'fp32'", kind: 'safe', edits: [{ kind: 'set', path: path(dtype), value: 'fp32' }] },
          ],
        })
      if (module.storage === 'fp64' && declared(storage))
        report({
          message: 'storage',
          at: storage,
          data: { module: module.name, gpu },
          related,
          fixes: [{ label: 'Remove `storage`', kind: 'safe', edits: [{ kind: 'remove', path: path(storage) }] }],
        })
    })
  },
})
