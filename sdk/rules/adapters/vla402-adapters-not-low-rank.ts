import { defineRule } from '../rule.ts'

export const adaptersNotLowRank = defineRule({
  id: 'VLA402',
  name: 'adapters-not-low-rank',
  area: 'adapters',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Adapters have fewer parameters than the module that they adapt.',
  why: 'A rank near or above the width of the layers is full training with twice the parameters: it costs more memory and can express no more.',
  fix: 'Use a smaller rank, or train the module without adapters.',
  suppress: { allowed: true, when: 'The adapters are to be removable from the base, at any price.' },
  sources: [
    {
      title: 'Hu et al. 2021, LoRA',
      at: 'https://arxiv.org/abs/2106.09685',
      locator: 'section 4.1: r much smaller than min(d, k)',
    },
  ],
  messages: { large: "Adapters of rank {rank} add {adapters} parameters to the {count} of '{module}'." },
  valid: [{ caption: 'Rank 8 at width 128.', code: `modules: { language: { adapt: lora({ rank: 8 }) } },` }],
  invalid: [{ caption: 'Rank 256 at width 128.', code: `modules: { language: { adapt: lora({ rank: 256 }) } },` }],
  check({ plan, known, each, report }) {
    each(plan.modules, (module, index) => {
      const { adapt } = module
      if (adapt === null) return
      const count = known(module.count)
      const adapters = known(module.adapterCount)
      // No adapters at all is VLA401's.
      if (adapters === 0 || adapters < count) return
      const rank = Math.max(1, 2 ** Math.floor(Math.log2((adapt.rank * count) / adapters / 10)))
      report({
        message: 'large',
        at: ['modules', index, 'adapt'],
        path: ['modules', module.name, 'adapt', 'rank'],
        data: { rank: adapt.rank, adapters, count, module: module.name },
        fix: `Rank ${String(rank)} stays below a tenth of the module; or train the module without adapters.`,
      })
    })
  },
})
