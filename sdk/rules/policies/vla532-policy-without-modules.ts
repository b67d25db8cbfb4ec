import { policies } from '../../catalog/lerobot/index.ts'
import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const policyWithoutModules = defineRule({
  id: 'VLA532',
  name: 'policy-without-modules',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'A policy that the catalog does not describe names its modules.',
  why: 'Nothing else says which parameters train with which learning rate, and which of its blocks are sharded and recomputed.',
  fix: 'Run `vla inspect` with the type: it prints the module tree and proposes the modules.',
  suppress: { allowed: false, because: 'There is nothing to train.' },
  sources: [{ title: 'generated runtime', at: 'templates/runtime/vla_runtime/partition.py', locator: 'Partition' }],
  messages: { unnamed: "The catalog does not describe the policy '{type}', and no modules are named." },
  valid: [
    {
      caption: 'Modules by their patterns.',
      code: `model: lerobotPolicy({ type: 'vqbet', cameras: ['front'], chunk: 5, images: 'identity', modules: { policy: { parameters: ['*'] } } }),`,
    },
  ],
  invalid: [
    {
      caption: 'A type of another library.',
      code: `model: { kind: 'lerobotPolicy', type: 'vqbet', cameras: ['front'], chunk: 5, images: 'identity' },`,
    },
  ],
  check({ plan, report }) {
    const { model, modules } = plan
    if (model.family !== 'lerobot' || modules.length > 0) return
    report({
      message: 'unnamed',
      at: ['model', 'type'],
      path: ['model', 'type'],
      data: { type: model.type },
      fix: `Run \`vla inspect ${model.type}\`, which proposes the modules, or use one of ${listed(Object.keys(policies))}.`,
    })
  },
})
