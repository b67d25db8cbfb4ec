import { findPolicy } from '../../catalog/lerobot/index.ts'
import type { Pipeline } from '../../plan/plan.ts'
import { everTrains, listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const frozenAtRandom = defineRule({
  id: 'VLA308',
  name: 'frozen-at-random',
  area: 'freezing',
  severity: 'warning',
  since: '0.1.0',
  summary: 'What stays frozen has been trained by somebody.',
  why: 'A module into which nothing is loaded has random first values. Frozen, it keeps them for the whole run, and what trains behind it learns from noise: the loss falls a little and the policy is blind. Adapters of low rank cannot make up for a random base.',
  fix: 'Give it weights, or let it train.',
  suppress: { allowed: true, when: 'Random features are meant, or only the machinery is tried out.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/smolvla/configuration_smolvla.py',
      locator: 'freeze_vision_encoder and train_expert_only are on, load_vlm_weights is off',
    },
    {
      title: 'Hu et al. 2021, LoRA',
      at: 'https://arxiv.org/abs/2106.09685',
      locator: 'section 4.1: the update of pretrained weights has a low rank',
    },
  ],
  messages: {
    frozen: 'Nothing is loaded into {modules}, and nothing of it trains: it stays at its random first values.',
    adapted:
      'Nothing is loaded into {modules}, and only adapters of it train: the base stays at its random first values.',
  },
  valid: [
    {
      caption: 'Frozen with weights.',
      code: `modules: { vision: { freeze: 'always' } },`,
    },
    {
      caption: 'Frozen for a while.',
      code: `modules: { projector: { freeze: until('20%') } },`,
    },
    {
      caption: 'Adapters of a pretrained trunk.',
      code: `modules: { language: { adapt: lora({ rank: 8 }) } },`,
    },
    {
      caption: 'The whole policy is pretrained.',
      code: `model: pi0({ cameras: ['base_0_rgb'], weights: 'lerobot/pi0_base' }),
cameras: { base_0_rgb: 'observation.image' },
modules: { vision: { freeze: 'always' } },`,
    },
  ],
  invalid: [
    {
      caption: "SmolVLA as LeRobot's defaults have it, without weights: its vision-language model is frozen.",
      code: `model: smolvla({ cameras: ['camera1'] }),
cameras: { camera1: 'observation.image' },`,
    },
    {
      caption: 'A tower without weights.',
      code: `model: composed({ cameras: ['front'], vision: timmVision('convnext_atto', { imageSize: 64, output: 'map', layer: 0 }), projector: keyPoints, language: trunk, state: true, action: regression({ chunk: 8 }), promptTokens: 96 }),
modules: { vision: { freeze: 'always' } },`,
    },
    {
      caption: 'Adapters of a trunk that was never trained.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: causalLM({ config: { model_type: 'llama', hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, num_attention_heads: 4 } }), state: true, action: regression({ chunk: 8 }), promptTokens: 96 }),
modules: { language: { adapt: lora({ rank: 8 }) } },`,
    },
  ],
  check({ plan, path, report }) {
    const random = plan.modules.flatMap((module, index) => {
      const trainsInFull = module.adapt === null && everTrains(module, plan.training.updates)
      return trainsInFull || isPretrained(plan, module.name) !== false ? [] : [{ module, index }]
    })
    for (const [message, field] of [
      ['frozen', 'freeze'],
      ['adapted', 'adapt'],
    ] as const) {
      const [first, ...others] = random.filter(({ module }) => (module.adapt === null) === (message === 'frozen'))
      if (first === undefined) continue
      const at = ['modules', first.index, field]
      report({
        message,
        at,
        path: path(at),
        data: { modules: listed([first, ...others].map(({ module }) => module.name)) },
        ...fixOf(plan),
        related: others.map(({ module, index }) => ({ at: ['modules', index, field], note: `'${module.name}'` })),
      })
    }
  },
})

function fixOf({ model }: Pipeline): { fix?: string } {
  return model.family === 'lerobot' && model.type === 'smolvla'
    ? {
        fix: "Name weights ('lerobot/smolvla_base'), load the VLM's (config: { load_vlm_weights: true }), or let it train.",
      }
    : {}
}

/** Whether something is loaded into a module; undefined where the policy alone knows that. */
function isPretrained({ model }: Pipeline, name: string): boolean | undefined {
  if (model.weights !== null) return true
  if (model.family !== 'lerobot') {
    if (name === 'vision') return model.vision.towers.some(({ weights }) => weights !== null)
    return name === 'language' && model.language.source === 'pretrained'
  }
  const values = findPolicy(model.type)?.describe(model).values
  if (values === undefined) return undefined
  if (model.type === 'smolvla')
    return values['load_vlm_weights'] === true && ['vision', 'projector', 'language'].includes(name)
  return name === 'vision' && (values['pretrained_backbone_weights'] ?? null) !== null
}
