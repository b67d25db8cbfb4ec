import { defineRule } from '../rule.ts'

const MOST = 8

export const adapterScale = defineRule({
  id: 'VLA407',
  name: 'adapter-scale',
  area: 'adapters',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Adapters are scaled by alpha / rank, which is at most a few.',
  why: 'What an adapter adds is multiplied by alpha / rank, and so is its effective learning rate. Recipes have 0.5 to 2; a factor of ten and more usually comes from changing the rank and not alpha, and the run diverges after the warm-up.',
  fix: 'Use an alpha of the rank, or of twice the rank.',
  suppress: { allowed: true, when: 'The learning rate was tuned for this scale.' },
  sources: [
    {
      title: 'Hu et al. 2021, LoRA',
      at: 'https://arxiv.org/abs/2106.09685',
      locator: 'section 4.1: scaling by alpha / r',
    },
    { title: 'peft 0.21', at: 'peft/tuners/lora/layer.py', locator: 'scaling = lora_alpha / r' },
  ],
  messages: { strong: "The adapters of '{module}' are scaled by {scale}: alpha {alpha} over rank {rank}." },
  valid: [{ caption: 'Twice the rank.', code: `modules: { language: { adapt: lora({ rank: 8, alpha: 16 }) } },` }],
  invalid: [
    {
      caption: 'The alpha of another rank.',
      code: `modules: { language: { adapt: lora({ rank: 4, alpha: 128 }) } },`,
    },
  ],
  check({ plan, path, each, report }) {
    each(plan.modules, (module, index) => {
      const { adapt } = module
      if (adapt === null || adapt.alpha / adapt.rank <= MOST) return
      const at = ['modules', index, 'adapt', 'alpha']
      report({
        message: 'strong',
        at,
        data: { module: module.name, scale: adapt.alpha / adapt.rank, alpha: adapt.alpha, rank: adapt.rank },
        fixes: [
          {
            label: `Set alpha to ${String(2 * adapt.rank)}`,
            kind: 'suggestion',
            edits: [{ kind: 'set', path: path(at), value: 2 * adapt.rank }],
          },
        ],
      })
    })
  },
})
