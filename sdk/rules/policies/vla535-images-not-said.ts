import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const imagesNotSaid = defineRule({
  id: 'VLA535',
  name: 'images-not-said',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'A policy that the catalog does not describe says what normalises its pictures.',
  why: "Whether a policy wants pictures from 0 to 1 or ImageNet's mean and std taken out stands in its configuration class, which only LeRobot's code knows. With the wrong one it trains on inputs that its pretrained encoder never saw, and nothing fails.",
  fix: "Say images: 'imagenet', 'meanStd' or 'identity' in the model; `vla inspect` proposes LeRobot's.",
  suppress: { allowed: false, because: 'The policy cannot be built without it.' },
  sources: [
    { title: 'LeRobot', at: 'lerobot/configs/policies.py', locator: 'PreTrainedConfig: normalization_mapping, VISUAL' },
    { title: 'LeRobot', at: 'lerobot/datasets/factory.py', locator: 'make_dataset: use_imagenet_stats' },
  ],
  messages: { unsaid: "Nothing says how the pictures of the policy '{type}' are normalised." },
  valid: [
    {
      caption: 'Pictures that the policy takes as they are.',
      code: `model: lerobotPolicy({ type: 'vqbet', cameras: ['front'], chunk: 5, images: 'identity', modules: { policy: { parameters: ['*'] } } }),`,
    },
  ],
  invalid: [
    {
      caption: 'A policy that only LeRobot knows.',
      code: `model: lerobotPolicy({ type: 'vqbet', cameras: ['front'], chunk: 5, modules: { policy: { parameters: ['*'] } } }),`,
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || isKnown(model.images)) return
    report({
      message: 'unsaid',
      at: ['model', 'images'],
      path: ['model'],
      data: { type: model.type },
      fix: `Say images in the model. \`vla inspect ${model.type}\` proposes what LeRobot has: 'imagenet', or 'identity' for pictures as they are, from 0 to 1.`,
    })
  },
})
