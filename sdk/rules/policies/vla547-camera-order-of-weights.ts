import { findLoop } from '../../catalog/lerobot/loop.ts'
import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const cameraOrderOfWeights = defineRule({
  id: 'VLA547',
  name: 'camera-order-of-weights',
  area: 'policies',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The cameras of a pretrained policy come in the order that its weights saw.',
  why: 'LeRobot puts the images into the sequence in the order of the features, whatever they are called: in another order the weights see the wrist where they learnt to see the scene.',
  fix: 'List the cameras in the order of the published policy.',
  suppress: { allowed: true, when: 'Your weights were trained in this order.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi0/modeling_pi0.py',
      locator: '_preprocess_images: the order of config.image_features',
    },
  ],
  messages: { order: 'The cameras come as {declared}; the published {policy} has them as {published}.' },
  valid: [
    {
      caption: 'As published.',
      code: `model: pi0({ weights: 'lerobot/pi0_base', cameras: ['base_0_rgb', 'left_wrist_0_rgb'] }),
cameras: { base_0_rgb: 'observation.image', left_wrist_0_rgb: 'observation.wrist' },`,
      lock: {
        datasets: {
          'data/reach': {
            features: {
              'observation.wrist': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
            },
          },
        },
      },
    },
  ],
  invalid: [
    {
      caption: 'The wrist first.',
      code: `model: pi0({ weights: 'lerobot/pi0_base', cameras: ['left_wrist_0_rgb', 'base_0_rgb'] }),
cameras: { base_0_rgb: 'observation.image', left_wrist_0_rgb: 'observation.wrist' },`,
      lock: {
        datasets: {
          'data/reach': {
            features: {
              'observation.wrist': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
            },
          },
        },
      },
    },
  ],
  check({ plan, path, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || model.weights === null) return
    const published: readonly string[] = findLoop(model.type)?.cameras ?? []
    const mine = model.cameras.filter((camera) => published.includes(camera))
    const theirs = published.filter((camera) => model.cameras.includes(camera))
    if (mine.join() === theirs.join()) return
    const at = ['model', 'cameras']
    const rest = model.cameras.filter((camera) => !published.includes(camera))
    report({
      message: 'order',
      at,
      data: { declared: listed(mine), policy: model.type, published: listed(theirs) },
      fixes: [
        {
          label: 'Use the published order',
          kind: 'suggestion',
          edits: [{ kind: 'set', path: path(at), value: [...theirs, ...rest] }],
        },
      ],
    })
  },
})
