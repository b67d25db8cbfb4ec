import { defineRule } from '../rule.ts'

/** The first token of every prompt. */
const BEGIN = 1

export const promptFillsItsLength = defineRule({
  id: 'VLA510',
  name: 'prompt-fills-its-length',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'The prompt leaves room for an instruction within `promptTokens`.',
  why: 'The loader refuses the first sample: nothing is cut off in silence, and there is no room for a single word.',
  fix: 'Raise `promptTokens`, or shorten the prompt.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'openpi issue 379',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/379',
      locator: 'prompts longer than max_token_len are truncated',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/tokenization.py',
      locator: 'PromptTokenizer.ids',
    },
  ],
  messages: {
    full: 'The prompt alone takes {prompt} of {length} tokens (the byte-level tokenizer needs one per byte).',
  },
  valid: [
    {
      caption: 'One token per byte, and room for a sentence.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 4, num_attention_heads: 4 } }), action: regression({ chunk: 8 }), prompt: 'Do: {instruction}', promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: "OpenVLA's prompt in 48 bytes.",
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 4, num_attention_heads: 4 } }), action: regression({ chunk: 8 }), promptTokens: 48 }),`,
    },
  ],
  check({ plan, path, report }) {
    if (plan.model.family === 'lerobot') return
    const { language, prompt, promptTokens } = plan.model
    if (language.tokenizer !== 'bytes') return
    const used = BEGIN + new TextEncoder().encode(prompt.replace('{instruction}', '')).length
    if (used < promptTokens) return
    const enough = Math.ceil((used + 64) / 32) * 32
    const at = ['model', 'promptTokens']
    report({
      message: 'full',
      at,
      data: { prompt: used, length: promptTokens },
      fix: `Set promptTokens to ${String(enough)}, which leaves room for an instruction of 64 bytes, or shorten the prompt.`,
      related: [{ at: ['model', 'prompt'], note: 'the prompt' }],
      fixes: [
        {
          label: `Set promptTokens to ${String(enough)}`,
          kind: 'safe',
          edits: [{ kind: 'set', path: path(at), value: enough }],
        },
      ],
    })
  },
})
