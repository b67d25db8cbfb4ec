import { defineRule } from '../rule.ts'
import { actionTokens, expertTokens, observedTokens } from '../sequence.ts'

export const sequenceBeyondPositions = defineRule({
  id: 'VLA571',
  name: 'sequence-beyond-positions',
  area: 'model',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The sequence is no longer than the positions that the trunk knows.',
  why: 'Beyond max_position_embeddings a model with learned positions fails, and one with rotary ones meets angles that it never saw in its pretraining: what stands last in the sequence, the instruction and the actions, is attended to badly.',
  fix: 'Use fewer cameras or a tower with fewer tokens, or a smaller promptTokens.',
  suppress: { allowed: true, when: 'The trunk is trained from the start, or its positions are scaled.' },
  sources: [
    {
      title: 'Megatron-LM',
      at: 'https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py',
      locator: 'max_position_embeddings >= seq_length',
    },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/composed.py',
      locator: 'the sequence: images, prompt, state, actions',
    },
  ],
  messages: {
    long: 'The sequence has {length} tokens ({observed} of the observation, {actions} of the action); the trunk knows {positions} positions.',
  },
  valid: [
    {
      caption: 'A short sequence.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 512 } }), action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'A prompt of two thousand tokens.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 512 } }), action: regression({ chunk: 8 }), promptTokens: 2_048 }),`,
    },
    {
      caption: 'An expert whose positions go on where the trunk ends.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 104 } }), action: flowMatching({ attention: 'joint', hidden: 64, chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, path, known, report }) {
    const { model } = plan
    if (model.family === 'lerobot') return
    const positions = known(model.language.config)['max_position_embeddings']
    if (typeof positions !== 'number') return
    const observed = observedTokens(model, known)
    const actions = actionTokens(model, known) + expertTokens(model, known)
    const length = observed + actions
    if (length <= positions) return
    const room = positions - (length - model.promptTokens)
    const at = ['model', 'promptTokens']
    report({
      message: 'long',
      at,
      data: { length, observed, actions, positions },
      fix:
        room >= 32
          ? `promptTokens: ${String(room)} fits.`
          : 'Use fewer cameras, a tower with fewer tokens, or a shorter chunk.',
      related: [{ at: ['model', 'language'], note: 'the trunk' }],
      fixes:
        room >= 32
          ? [
              {
                label: `Set promptTokens to ${String(room)}`,
                kind: 'suggestion',
                edits: [{ kind: 'set', path: path(at), value: room }],
              },
            ]
          : [],
    })
  },
})
