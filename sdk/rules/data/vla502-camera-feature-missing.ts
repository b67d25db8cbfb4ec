import { listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

export const cameraFeatureMissing = defineRule({
  id: 'VLA502',
  name: 'camera-feature-missing',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'The feature that a camera is mapped to is an image or a video of the dataset.',
  why: 'The loader finds no picture under this name, and the run stops on the target.',
  fix: 'Map the camera to one of the image features of the dataset.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'LeRobot issue 3181',
      at: 'https://github.com/huggingface/lerobot/issues/3181',
      locator: 'features of dataset and policy do not match',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/data.py', locator: '_Source: has no feature' },
  ],
  messages: { missing: "The dataset '{dataset}' has no camera '{feature}'." },
  valid: [{ caption: 'A feature of the dataset.', code: `cameras: { front: 'observation.image' },` }],
  invalid: [{ caption: 'The name of another dataset.', code: `cameras: { front: 'observation.images.top' },` }],
  check({ plan, known, each, path, report }) {
    each(plan.datasets, (dataset, index) => {
      const features = Object.keys(known(dataset.cameraSizes))
      for (const [camera, feature] of Object.entries(dataset.cameras)) {
        if (features.includes(feature)) continue
        const at = ['datasets', index, 'cameras', camera]
        // A mapping that several datasets share, or another camera's feature, is no place for a fix.
        const free = features.filter((name) => !Object.values(dataset.cameras).includes(name))
        const [only] = plan.datasets.length === 1 ? free : []
        report({
          message: 'missing',
          at,
          data: { dataset: dataset.name, feature },
          fix:
            features.length === 0 ? 'It has no cameras at all: record it with images.' : `It has ${listed(features)}.`,
          fixes:
            only !== undefined && free.length === 1
              ? [
                  {
                    label: `Map '${camera}' to '${only}'`,
                    kind: 'safe',
                    edits: [{ kind: 'set', path: path(at), value: only }],
                  },
                ]
              : [],
        })
      }
    })
  },
})
