import { isLanguageFamily, languageFamilies } from '../../catalog/language.ts'
import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const expertBesideTrunk = defineRule({
  id: 'VLA522',
  name: 'expert-beside-trunk',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary:
    'A joint action expert has the layers and heads of its trunk, and the trunk is of a family that hands its keys and values on.',
  why: 'In joint attention the expert and the trunk meet in one softmax at every layer: a layer without a partner has nothing to attend to, and keys of other heads do not fit together.',
  fix: "Leave `layers` and `heads` out: they are the trunk's. Only `hidden` and `mlp` are the expert's own.",
  suppress: { allowed: false, because: 'The failure is certain: the model cannot be built.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/joint.py',
      locator: 'expert_config and FAMILIES',
    },
    {
      title: 'Black et al. 2024, pi0: A Vision-Language-Action Flow Model for General Robot Control',
      at: 'https://arxiv.org/abs/2410.24164',
      locator: 'appendix B: the action expert has widths of its own; both interact through self-attention alone',
    },
  ],
  messages: {
    layers:
      'The action expert has {expert} layers, but joint attention needs one beside each of the {trunk} of the trunk.',
    heads: 'The action expert has {expert} attention heads, but its keys meet those of the {trunk} of the trunk.',
    family: "Joint attention is not known to work with a language model of type '{type}'.",
  },
  valid: [
    {
      caption: 'Widths of its own, everything else from the trunk.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, state: true, action: flowMatching({ attention: 'joint', hidden: 64, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: "The trunk's numbers, said again.",
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, state: true, action: flowMatching({ attention: 'joint', hidden: 64, mlp: 200, layers: 4, heads: 4, chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'Two layers beside four.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, state: true, action: flowMatching({ attention: 'joint', hidden: 64, layers: 2, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'Eight heads beside four.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, state: true, action: flowMatching({ attention: 'joint', hidden: 64, heads: 8, chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'A trunk of another family.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'gpt2', n_embd: 128, n_layer: 4, n_head: 4, vocab_size: 320 } }), state: true, action: flowMatching({ attention: 'joint', hidden: 64, chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, each, known, report }) {
    if (plan.model.family === 'lerobot') return
    const { action, language } = plan.model
    if (action.decoder !== 'flowMatching' || action.attention !== 'joint') return
    const config: Readonly<Record<string, unknown>> = isKnown(language.config) ? language.config : {}
    const type = config['model_type']
    if (typeof type === 'string' && !isLanguageFamily(type)) {
      const at = ['model', 'action', 'attention']
      report({
        message: 'family',
        at,
        data: { type },
        fix: `Use a language model of type ${languageFamilies.join(', ')}, or attention: 'cross' with layers of its own.`,
        related: [{ at: ['model', 'language'], note: 'the language model' }],
      })
      return
    }
    each(['layers', 'heads'] as const, (field) => {
      const expert = known(action[field])
      const trunk = known(language[field])
      if (expert === trunk) return
      const at = ['model', 'action', field]
      report({
        message: field,
        at,
        data: { expert, trunk },
        fix: `Remove \`${field}\`: the expert takes the trunk's ${String(trunk)}.`,
        related: [{ at: ['model', 'language'], note: 'the trunk' }],
        fixes: [{ label: `Remove \`${field}\``, kind: 'safe', edits: [{ kind: 'remove', path: path(at) }] }],
      })
    })
  },
})
