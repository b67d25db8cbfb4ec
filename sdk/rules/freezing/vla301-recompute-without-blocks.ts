import { defineRule } from '../rule.ts'

export const recomputeWithoutBlocks = defineRule({
  id: 'VLA301',
  name: 'recompute-without-blocks',
  area: 'freezing',
  severity: 'error',
  since: '0.1.0',
  summary: 'Only a module with repeated blocks can be recomputed.',
  why: 'Recompute keeps what enters a block and drops what is inside. Without blocks nothing is dropped, and no memory is saved.',
  fix: 'Remove `recompute` here; the modules with blocks (towers, trunk, flow-matching head) are where activations lie.',
  suppress: { allowed: false, because: 'The failure is silent: the memory that was to be saved is not.' },
  sources: [
    {
      title: 'Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost',
      at: 'https://arxiv.org/abs/1604.06174',
      locator: 'section 4: segments of a chain are what is dropped and recomputed',
    },
    {
      title: 'torch 2.11, checkpoint_wrapper',
      at: 'torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py',
      locator: 'apply_activation_checkpointing: wraps the submodules that a function picks',
    },
  ],
  messages: { none: "The module '{module}' has no blocks to recompute." },
  valid: [{ caption: 'The trunk.', code: `modules: { language: { recompute: 'full' } },` }],
  invalid: [{ caption: 'A projector.', code: `modules: { projector: { recompute: 'full' } },` }],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      if (module.recompute === 'none' || module.blocks.length > 0) return
      const path = ['modules', module.name, 'recompute']
      report({
        message: 'none',
        at: ['modules', index, 'recompute'],
        path,
        data: { module: module.name },
        fixes: [{ label: 'Remove `recompute`', kind: 'safe', edits: [{ kind: 'remove', path }] }],
      })
    })
  },
})
