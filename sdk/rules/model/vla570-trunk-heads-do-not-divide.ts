import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const trunkHeadsDoNotDivide = defineRule({
  id: 'VLA570',
  name: 'trunk-heads-do-not-divide',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: "A trunk's width divides by its attention heads, and these by its heads of keys and values.",
  why: 'Attention cuts the width into heads of equal size, and hands each head of keys and values to an equal number of heads of queries. Otherwise the model cannot be built, or its first forward pass fails.',
  fix: 'Choose numbers that divide.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'transformers 5.5',
      at: 'transformers/models/llama/modeling_llama.py',
      locator: 'LlamaAttention: head_dim, num_key_value_groups',
    },
  ],
  messages: {
    width: 'A width of {hidden} (hidden_size) does not divide by {heads} attention heads.',
    groups: '{heads} attention heads do not divide by {groups} heads of keys and values (num_key_value_heads).',
  },
  valid: [
    {
      caption: 'Eight heads over two of keys and values.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 2 } }), action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'Three heads of keys and values.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 8, num_key_value_heads: 3 } }), action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
    {
      caption: 'Six heads of a width of 128.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 6, num_key_value_heads: 6 } }), action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, report }) {
    const { model } = plan
    if (model.family === 'lerobot' || model.language.source !== 'config' || !isKnown(model.language.config)) return
    const config: Readonly<Record<string, unknown>> = model.language.config
    const { hidden_size: hidden, num_attention_heads: heads, num_key_value_heads: groups } = config
    if (typeof heads !== 'number' || heads < 1) return
    const at = ['model', 'language', 'config']
    const place = path(at)
    if (typeof hidden === 'number' && config['head_dim'] === undefined && hidden % heads !== 0)
      report({
        message: 'width',
        at,
        path: [...place, 'num_attention_heads'],
        data: { hidden, heads },
        fix: `Numbers of heads that divide it: ${nearestDivisors(hidden, heads).join(', ')}.`,
      })
    if (typeof groups === 'number' && groups > 0 && heads % groups !== 0)
      report({
        message: 'groups',
        at,
        path: [...place, 'num_key_value_heads'],
        data: { heads, groups },
        fix: `Numbers that divide ${String(heads)}: ${nearestDivisors(heads, groups).join(', ')}.`,
      })
  },
})

/** The divisors of `total` nearest to `wanted`, at most four, in order. */
function nearestDivisors(total: number, wanted: number): number[] {
  return Array.from({ length: total }, (_, index) => index + 1)
    .filter((divisor) => total % divisor === 0)
    .sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted))
    .slice(0, 4)
    .sort((a, b) => a - b)
}
