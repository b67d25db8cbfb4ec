import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const cameraUsedTwice = defineRule({
  id: 'VLA517',
  name: 'camera-used-twice',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'Two cameras of the model do not read the same feature.',
  why: 'The model sees one picture twice and the other camera never; the loss looks as it should.',
  fix: 'Map each camera to a feature of its own, or give the model fewer cameras.',
  suppress: { allowed: false, because: 'The failure is silent.' },
  sources: [
    {
      title: 'LeRobot issue 4245',
      at: 'https://github.com/huggingface/lerobot/issues/4245',
      locator: 'camera names mapped wrongly',
    },
  ],
  messages: { twice: "The cameras {cameras} of the model all read '{feature}' of '{dataset}'." },
  valid: [{ caption: 'One camera, one feature.', code: `cameras: { front: 'observation.image' },` }],
  invalid: [
    {
      caption: 'A copied line.',
      code: `model: composed({ cameras: ['front', 'wrist'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),
cameras: { front: 'observation.image', wrist: 'observation.image' },`,
    },
  ],
  check({ plan, each, report }) {
    each(plan.datasets, (dataset, index) => {
      const byFeature = new Map<string, string[]>()
      for (const [camera, feature] of Object.entries(dataset.cameras))
        byFeature.set(feature, [...(byFeature.get(feature) ?? []), camera])
      for (const [feature, cameras] of byFeature) {
        const [first = '', second] = cameras
        if (second === undefined) continue
        report({
          message: 'twice',
          at: ['datasets', index, 'cameras', second],
          data: { cameras: listed(cameras), feature, dataset: dataset.name },
          related: [{ at: ['datasets', index, 'cameras', first], note: `'${first}' reads it too` }],
        })
      }
    })
  },
})
