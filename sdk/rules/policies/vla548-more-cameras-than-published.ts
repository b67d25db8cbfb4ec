import { findLoop } from '../../catalog/lerobot/loop.ts'
import { defineRule } from '../rule.ts'

export const moreCamerasThanPublished = defineRule({
  id: 'VLA548',
  name: 'more-cameras-than-published',
  area: 'policies',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A pretrained policy is shown no more cameras than its weights were trained with.',
  why: 'The further images shift everything behind them to positions where the weights never saw it, and lengthen every sequence: openpi refuses more than its three slots.',
  fix: 'Choose the cameras that matter, in the slots of the published policy.',
  suppress: { allowed: true, when: 'The run is long enough to learn the new slots.' },
  sources: [
    { title: 'openpi', at: 'openpi/src/openpi/models/model.py', locator: 'IMAGE_KEYS: three slots' },
    { title: 'LeRobot', at: 'lerobot/policies/smolvla/modeling_smolvla.py', locator: 'prepare_images' },
  ],
  messages: { more: '{count} cameras; the published {policy} was trained with {published}.' },
  valid: [
    {
      caption: 'One of three.',
      code: `model: pi0({ weights: 'lerobot/pi0_base', cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  invalid: [
    {
      caption: 'Four.',
      code: `model: pi0({ weights: 'lerobot/pi0_base', cameras: ['base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb', 'top'] }),
cameras: { base_0_rgb: 'observation.image', left_wrist_0_rgb: 'observation.a', right_wrist_0_rgb: 'observation.b', top: 'observation.c' },`,
      lock: {
        datasets: {
          'data/reach': {
            features: {
              'observation.a': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
              'observation.b': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
              'observation.c': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
            },
          },
        },
      },
    },
  ],
  check({ plan, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || model.weights === null) return
    const published = findLoop(model.type)?.cameras.length ?? 0
    const empty = model.config['empty_cameras']
    const count = model.cameras.length + (typeof empty === 'number' ? empty : 0)
    if (published === 0 || count <= published) return
    report({ message: 'more', at: ['model', 'cameras'], data: { count, policy: model.type, published } })
  },
})
