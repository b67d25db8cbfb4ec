import { defineRule } from '../rule.ts'

/** LeRobot's MetaWorld sentences have 13 to 57 characters. */
const USUAL = 48
const BEGIN = 1

export const littleRoomForInstructions = defineRule({
  id: 'VLA523',
  name: 'little-room-for-instructions',
  area: 'model',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A byte-level prompt leaves room for a usual sentence.',
  why: 'The byte-level tokenizer needs one token per byte; the run stops at the first instruction that does not fit.',
  fix: 'Raise `promptTokens`.',
  suppress: { allowed: true, when: 'You know that every instruction of the data is short.' },
  sources: [
    { title: 'LeRobot 0.6.1', at: 'lerobot/envs/metaworld_config.json', locator: 'TASK_DESCRIPTIONS' },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/modeling/tokenization.py', locator: 'PromptTokenizer.ids' },
  ],
  messages: { little: 'The prompt takes {prompt} of {length} tokens and leaves room for instructions of {room} bytes.' },
  valid: [{ caption: '96 tokens.', code: `name: 'room',` }],
  invalid: [
    {
      caption: '64 tokens, as would do for a subword tokenizer.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 64 }),`,
    },
  ],
  check({ plan, path, report }) {
    const { language, prompt, promptTokens } = plan.model
    if (language.tokenizer !== 'bytes') return
    const used = BEGIN + new TextEncoder().encode(prompt.replace('{instruction}', '')).length
    const room = promptTokens - used
    if (room <= 0 || room >= USUAL) return // none at all has a finding of its own
    const enough = Math.ceil((used + 64) / 32) * 32
    const at = ['model', 'promptTokens']
    report({
      message: 'little',
      at,
      data: { prompt: used, length: promptTokens, room },
      fix: `Set promptTokens to ${String(enough)}.`,
      related: [{ at: ['model', 'prompt'], note: 'the prompt' }],
      fixes: [{ label: `Set promptTokens to ${String(enough)}`, kind: 'safe', edits: [{ kind: 'set', path: path(at), value: enough }] }],
    })
  },
})
