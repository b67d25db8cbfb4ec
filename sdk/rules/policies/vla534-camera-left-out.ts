import { findLoop } from '../../catalog/lerobot/loop.ts'
import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const cameraLeftOut = defineRule({
  id: 'VLA534',
  name: 'camera-left-out',
  area: 'policies',
  severity: 'info',
  since: '0.1.0',
  summary: 'A camera of the published policy that no dataset has is left out, and said to be.',
  why: 'LeRobot fills a missing camera with a masked picture, which attention passes over: leaving it out computes the same and costs nothing. A camera that was only forgotten is missing all the same.',
  fix: 'Map the camera where the dataset has it. To train without it, nothing; `cameras` in the model says it in words.',
  suppress: { allowed: false, because: 'It is information, and fails no check.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi0/modeling_pi0.py',
      locator: '_preprocess_images: missing images become -1 with a mask of zeros',
    },
  ],
  messages: { absent: 'The policy runs without {cameras} of the published {policy}: no dataset has a feature for it.' },
  valid: [
    {
      caption: 'The cameras are said.',
      code: `model: pi0({ cameras: ['base_0_rgb'] }),
cameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  invalid: [
    {
      caption: 'One of three.',
      code: `model: pi0(),
cameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  check({ plan, origin, report }) {
    const { model } = plan
    if (model.family !== 'lerobot' || origin(['model', 'cameras']) === 'declared') return
    const absent = (findLoop(model.type)?.cameras ?? []).filter((camera) => !model.cameras.includes(camera))
    if (absent.length === 0) return
    report({
      message: 'absent',
      at: ['model', 'cameras'],
      path: ['cameras'],
      data: { cameras: listed(absent), policy: model.type },
    })
  },
})
