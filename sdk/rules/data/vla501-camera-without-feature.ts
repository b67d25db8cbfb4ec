import { isKnown } from '../../plan/plan.ts'
import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const cameraWithoutFeature = defineRule({
  id: 'VLA501',
  name: 'camera-without-feature',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'Every camera of the model has an image feature in every dataset.',
  why: 'The model would have no picture for this slot; frameworks that fill it with zeros train a blind camera without a word.',
  fix: 'Map the camera in `cameras`, or in the entry of the dataset.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'LeRobot issue 2262',
      at: 'https://github.com/huggingface/lerobot/issues/2262',
      locator: 'missing and wrong camera keys',
    },
    {
      title: 'openpi',
      at: 'openpi/src/openpi/models/model.py',
      locator: 'preprocess_observation: missing images are replaced by zeros and masked',
    },
  ],
  messages: { unmapped: "The camera '{camera}' of the model has no feature in the dataset '{dataset}'." },
  valid: [
    { caption: 'Mapped for all datasets.', code: `cameras: { front: 'observation.image' },` },
    { caption: 'Found: the only camera of the model and of the dataset.', code: `cameras: {},` },
  ],
  invalid: [
    {
      caption: 'A second camera that nobody mapped.',
      code: `model: composed({ cameras: ['front', 'wrist'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),`,
    },
  ],
  check({ plan, each, path, report }) {
    each(plan.datasets, (dataset, index) => {
      const features = isKnown(dataset.cameraSizes) ? Object.keys(dataset.cameraSizes) : []
      const free = features.filter((feature) => !Object.values(dataset.cameras).includes(feature))
      for (const camera of plan.model.cameras) {
        if (camera in dataset.cameras) continue
        const map = path(['datasets', index, 'cameras'])
        const target = [...(map.length > 0 ? map : ['cameras']), camera]
        const [only] = free
        report({
          message: 'unmapped',
          at: ['datasets', index, 'cameras'],
          path: target,
          data: { camera, dataset: dataset.name },
          fix:
            features.length > 0
              ? `Map it to one of the dataset's cameras: ${listed(features)}.`
              : 'Map the camera in `cameras`, or in the entry of the dataset.',
          fixes:
            only !== undefined && free.length === 1
              ? [
                  {
                    label: `Map '${camera}' to '${only}'`,
                    kind: 'suggestion',
                    edits: [{ kind: 'set', path: target, value: only }],
                  },
                ]
              : [],
        })
      }
    })
  },
})
