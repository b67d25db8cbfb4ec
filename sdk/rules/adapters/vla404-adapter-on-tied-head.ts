import { causalLM } from '../../catalog/language.ts'
import { defineRule } from '../rule.ts'

export const adapterOnTiedHead = defineRule({
  id: 'VLA404',
  name: 'adapter-on-tied-head',
  area: 'adapters',
  severity: 'error',
  since: '0.1.0',
  summary: 'An output head that is the embedding is not adapted.',
  why: 'Merging the adapter would change the embedding too, which was trained without it: the package would differ from what was trained.',
  fix: "Name the layers to adapt, without the head: targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'].",
  suppress: {
    allowed: false,
    because: 'The generated run refuses it, and merging would corrupt the package in silence.',
  },
  sources: [
    {
      title: 'peft 0.21',
      at: 'peft/tuners/tuners_utils.py',
      locator: 'warning "Model with tie_word_embeddings=True and a tied layer is part of the adapter"',
    },
  ],
  messages: {
    tied: "The adapters of '{module}' reach its output head, which is one with the embedding (tie_word_embeddings).",
  },
  valid: [
    {
      caption: 'Named layers.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens({ bins: 64 }), promptTokens: 96 }),
modules: { language: { adapt: lora({ rank: 8, targets: ['q_proj', 'v_proj'] }) } },`,
      also: ['VLA406'],
      lock: { weights: { 'weights/trunk': { config: { vocab_size: 1024, tie_word_embeddings: true } } } },
    },
  ],
  invalid: [
    {
      caption: 'Every linear, the tied head included.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens({ bins: 64 }), promptTokens: 96 }),
modules: { language: { adapt: lora({ rank: 8 }) } },`,
      also: ['VLA406'],
      lock: { weights: { 'weights/trunk': { config: { vocab_size: 1024, tie_word_embeddings: true } } } },
    },
  ],
  check({ plan, known, each, report }) {
    const { model } = plan
    if (model.family === 'lerobot' || model.action.decoder !== 'tokens') return // other decoders have no head
    each(plan.modules, (module, index) => {
      const { adapt } = module
      if (adapt === null || module.name !== 'language') return
      const reachesHead =
        adapt.targets === null || adapt.targets.some((target) => target === 'lm_head' || target.includes('*'))
      if (!reachesHead || !isTied(known(model.language.config))) return
      report({
        message: 'tied',
        at: ['modules', index, 'adapt'],
        path: ['modules', module.name, 'adapt', ...(adapt.targets === null ? [] : ['targets'])],
        data: { module: module.name },
        fixes: [
          {
            label: 'Adapt the attention and MLP layers',
            kind: 'suggestion',
            edits: [
              {
                kind: 'set',
                path: ['modules', module.name, 'adapt', 'targets'],
                value: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
              },
            ],
          },
        ],
      })
    })
  },
})

/** As transformers fills it in: Gemma ties unless told otherwise. */
function isTied(config: Readonly<Record<string, unknown>>): boolean {
  return causalLM(config, { head: true })?.tied ?? config['tie_word_embeddings'] === true
}
