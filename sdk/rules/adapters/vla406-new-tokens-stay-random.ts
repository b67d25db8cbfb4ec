import { everTrains } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const newTokensStayRandom = defineRule({
  id: 'VLA406',
  name: 'new-tokens-stay-random',
  area: 'adapters',
  severity: 'error',
  since: '0.1.0',
  summary: 'Action tokens that are new to a language model have an embedding that trains.',
  why: 'An own VLA with action tokens appends a row of embedding per bin. Under adapters, or frozen, the base does not train: the new rows keep the random values they began with, and the policy predicts tokens whose vectors mean nothing.',
  fix: 'Train the language module in full, or use a decoder with a head of its own: regression(...) or flowMatching(...).',
  suppress: { allowed: false, because: 'The failure is silent: the loss falls as far as the adapters can bend it.' },
  sources: [
    {
      title: 'LLaMA-Factory',
      at: 'https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/hparams/parser.py',
      locator: 'new tokens and adapters: embedding and head have to be trained too',
    },
    { title: 'Qwen issue 1104', at: 'https://github.com/QwenLM/Qwen/issues/1104' },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/modeling/language.py',
      locator: 'spare tokens are appended to the vocabulary',
    },
  ],
  messages: {
    adapted: "The {bins} action tokens are new rows of the embedding, and '{module}' trains adapters alone.",
    frozen: "The {bins} action tokens are new rows of the embedding, and '{module}' never trains.",
  },
  valid: [
    {
      caption: 'Trained in full.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),`,
    },
    {
      caption: 'A head of its own beside adapters.',
      code: `modules: { language: { adapt: lora({ rank: 8 }) } },`,
    },
  ],
  invalid: [
    {
      caption: 'Adapters.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
modules: { language: { adapt: lora({ rank: 8 }) } },`,
    },
    {
      caption: 'Frozen.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
modules: { language: { freeze: 'always' } },`,
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family === 'lerobot' || model.language.spareTokens === 0) return
    const index = plan.modules.findIndex(({ name }) => name === 'language')
    const module = plan.modules[index]
    if (module === undefined || (module.adapt === null && everTrains(module, plan.training.updates))) return
    const adapted = module.adapt !== null
    report({
      message: adapted ? 'adapted' : 'frozen',
      at: ['modules', index, adapted ? 'adapt' : 'freeze'],
      data: { bins: model.language.spareTokens, module: module.name },
      related: [{ at: ['model', 'action', 'decoder'], path: ['model', 'action'], note: 'action tokens' }],
    })
  },
})
