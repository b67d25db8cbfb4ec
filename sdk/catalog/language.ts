/**
 * Causal language models of transformers 5.5.4: parameters and sizes from a config.
 * Source: the modeling files of transformers (models/llama, mistral, qwen2, qwen3, gemma, gemma2); defaults from the config classes.
 * Names and shapes are held equal to the real classes by a test.
 */
import { linearLayer, tensor, vector, type Parameter } from './parameters.ts'

/** Sizes that the parameters depend on. */
interface Sizes {
  readonly vocab_size: number
  readonly hidden_size: number
  readonly intermediate_size: number
  readonly num_hidden_layers: number
  readonly num_attention_heads: number
  readonly num_key_value_heads: number | null // null: as many as attention heads
  readonly head_dim: number | null // null: hidden_size / num_attention_heads
  readonly tie_word_embeddings: boolean
  readonly attention_bias: boolean
  readonly mlp_bias: boolean
}

const plain = {
  num_key_value_heads: null,
  head_dim: null,
  tie_word_embeddings: false,
  attention_bias: false,
  mlp_bias: false,
}

/** What the config classes of transformers fill in. */
const defaults = {
  llama: {
    ...plain,
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_hidden_layers: 32,
    num_attention_heads: 32,
  },
  mistral: {
    ...plain,
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 14_336,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
  },
  qwen2: {
    ...plain,
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22_016,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 32,
  },
  qwen3: {
    ...plain,
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22_016,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 32,
    head_dim: 128,
  },
  gemma: {
    ...plain,
    vocab_size: 256_000,
    hidden_size: 3072,
    intermediate_size: 24_576,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 16,
    head_dim: 256,
    tie_word_embeddings: true,
  },
  gemma2: {
    ...plain,
    vocab_size: 256_000,
    hidden_size: 2304,
    intermediate_size: 9216,
    num_hidden_layers: 26,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    tie_word_embeddings: true,
  },
} as const satisfies Record<string, Sizes>

export type LanguageFamily = keyof typeof defaults

export interface LanguageFacts {
  readonly hidden: number
  readonly layers: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly headDim: number
  /** Rows of the embedding. */
  readonly vocab: number
  /** Whether the output head is the embedding. */
  readonly tied: boolean
  /** Parameters below `language_model`; a tied head is not listed twice. */
  readonly parameters: readonly Parameter[]
  /** fnmatch pattern of the decoder layers. */
  readonly blocks: string
  /** Patterns of what is dead where nothing but the layers' keys and values is read: the last layer behind them, and the last norm. */
  readonly behindKeys: readonly string[]
}

/** More layers than any model has: a slip, whose parameters are not worth listing. */
export const MOST_LAYERS = 10_000

/**
 * Describes a causal language model, or undefined where the catalog does not know its family or the config is not well-formed.
 *
 * @param config a transformers config with `model_type`; what it leaves out is filled in as transformers does
 * @param choices `head`: whether the output head is kept. `vocab`: rows of the embedding where they were changed
 */
export function causalLM(
  config: Readonly<Record<string, unknown>>,
  choices: { readonly head: boolean; readonly vocab?: number | undefined },
): LanguageFacts | undefined {
  const family = config['model_type']
  if (typeof family !== 'string' || !Object.hasOwn(defaults, family)) return undefined
  const base: Sizes = defaults[family as LanguageFamily]
  const size = (
    key: 'vocab_size' | 'hidden_size' | 'intermediate_size' | 'num_hidden_layers' | 'num_attention_heads',
  ): number => {
    const value = config[key]
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0
      ? value
      : key in config
        ? NaN
        : base[key]
  }
  const optional = (key: 'num_key_value_heads' | 'head_dim', otherwise: number): number => {
    const value = key in config ? config[key] : base[key]
    return typeof value === 'number' ? value : otherwise
  }
  const flag = (key: 'tie_word_embeddings' | 'attention_bias' | 'mlp_bias'): boolean =>
    typeof config[key] === 'boolean' ? config[key] : base[key]

  const hidden = size('hidden_size')
  const inner = size('intermediate_size')
  const layers = size('num_hidden_layers')
  if (layers > MOST_LAYERS) return undefined
  const heads = size('num_attention_heads')
  const vocab = choices.vocab ?? size('vocab_size')
  const headDim = optional('head_dim', Math.floor(hidden / heads))
  const keyValueHeads = optional('num_key_value_heads', heads)
  if (
    ![hidden, inner, layers, heads, vocab, headDim, keyValueHeads].every(
      (value) => Number.isSafeInteger(value) && value > 0,
    )
  )
    return undefined

  // Only some families read these: a key that a family ignores must not change the description.
  const readsBias = family === 'llama' || family === 'qwen3' || family === 'gemma' || family === 'gemma2'
  const attentionBias = readsBias && flag('attention_bias')
  const qkvBias = family === 'qwen2' || attentionBias
  const mlpBias = family === 'llama' && flag('mlp_bias')
  const tied = flag('tie_word_embeddings')

  const parameters: Parameter[] = [tensor('model.embed_tokens.weight', vocab, hidden)]
  for (let index = 0; index < layers; index++) {
    const layer = `model.layers.${String(index)}`
    parameters.push(
      ...linearLayer(`${layer}.self_attn.q_proj`, hidden, heads * headDim, qkvBias),
      ...linearLayer(`${layer}.self_attn.k_proj`, hidden, keyValueHeads * headDim, qkvBias),
      ...linearLayer(`${layer}.self_attn.v_proj`, hidden, keyValueHeads * headDim, qkvBias),
      ...linearLayer(`${layer}.self_attn.o_proj`, heads * headDim, hidden, attentionBias),
      ...(family === 'qwen3'
        ? [vector(`${layer}.self_attn.q_norm.weight`, headDim), vector(`${layer}.self_attn.k_norm.weight`, headDim)]
        : []),
      ...linearLayer(`${layer}.mlp.gate_proj`, hidden, inner, mlpBias),
      ...linearLayer(`${layer}.mlp.up_proj`, hidden, inner, mlpBias),
      ...linearLayer(`${layer}.mlp.down_proj`, inner, hidden, mlpBias),
      vector(`${layer}.input_layernorm.weight`, hidden),
      vector(`${layer}.post_attention_layernorm.weight`, hidden),
      ...(family === 'gemma2'
        ? [
            vector(`${layer}.pre_feedforward_layernorm.weight`, hidden),
            vector(`${layer}.post_feedforward_layernorm.weight`, hidden),
          ]
        : []),
    )
  }
  parameters.push(vector('model.norm.weight', hidden))
  if (choices.head && !tied) parameters.push(...linearLayer('lm_head', hidden, vocab, false))
  return {
    hidden,
    layers,
    heads,
    keyValueHeads,
    headDim,
    vocab,
    tied,
    parameters,
    blocks: 'model.layers.*',
    behindKeys: behindKeys(parameters, `model.layers.${String(layers - 1)}.`),
  }
}

function behindKeys(parameters: readonly Parameter[], last: string): string[] {
  const parts = parameters
    .filter(({ name }) => name.startsWith(last))
    .map(({ name }) => name.slice(last.length).split('.'))
    .map(([block = '', part = '']) => (block === 'self_attn' ? `${block}.${part}` : block))
  const live = /^(?:input_layernorm|self_attn\.[kv]_\w+)$/
  return [...[...new Set(parts)].filter((part) => !live.test(part)).map((part) => `${last}${part}.*`), 'model.norm.*']
}

/**
 * The parameters of an action expert beside a causal language model, below `transformer` (pi0): its layers and its norm with the trunk's
 * heads and other widths. Undefined where the catalog does not know the trunk.
 */
export function jointExpert(
  trunk: Readonly<Record<string, unknown>>,
  widths: { readonly hidden: number; readonly mlp: number },
): readonly Parameter[] | undefined {
  const headDim = causalLM(trunk, { head: false })?.headDim
  const own = { ...trunk, head_dim: headDim, hidden_size: widths.hidden, intermediate_size: widths.mlp }
  const facts = headDim === undefined ? undefined : causalLM(own, { head: false })
  return facts?.parameters
    .filter(({ name }) => !name.startsWith('model.embed_tokens.'))
    .map((parameter) => ({ ...parameter, name: parameter.name.replace(/^model\./, 'transformer.') }))
}

/** Whether the catalog describes language models of this `model_type`. */
export function isLanguageFamily(type: string): type is LanguageFamily {
  return Object.hasOwn(defaults, type)
}

/** The language models that the catalog describes, by `model_type`. */
export const languageFamilies: readonly string[] = Object.keys(defaults).sort()
