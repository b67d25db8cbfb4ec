import { defineRule } from '../rule.ts'

export const renderedAtAnotherSize = defineRule({
  id: 'VLA703',
  name: 'rendered-at-another-size',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'Evaluation renders at the size that was recorded.',
  why: 'A picture that is rendered at another size and scaled differs from the recorded one by about 8 of 255 grey values: success falls, and nothing says why.',
  fix: 'Set `imageSize` to the size of the recorded images.',
  suppress: { allowed: false, because: 'The failure is silent where the recording does not say how it was made.' },
  sources: [
    {
      title: 'LeRobot 0.6.1',
      at: 'lerobot/envs/metaworld.py',
      locator: 'render: 480 x 480 whatever observation_width says',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/rollout.py', locator: '_compare_rendering' },
  ],
  messages: {
    size: "The simulator renders {size} x {size} pixels, but '{feature}' of '{dataset}' has {width} x {height}.",
  },
  valid: [
    {
      caption: 'As recorded.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: "LeRobot's own size by default.",
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'] }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, known, path, report }) {
    const { evaluate } = plan
    const camera = plan.model.cameras[0]
    const dataset = plan.datasets[0]
    const feature = camera === undefined ? undefined : dataset?.cameras[camera]
    if (evaluate === null || dataset === undefined || feature === undefined || plan.model.cameras.length !== 1) return
    const [height, width] = known(dataset.cameraSizes)[feature] ?? []
    if (height === undefined || width === undefined || (height === evaluate.imageSize && width === evaluate.imageSize))
      return
    const at = ['evaluate', 'imageSize']
    report({
      message: 'size',
      at,
      data: { size: evaluate.imageSize, feature, dataset: dataset.name, width, height },
      fix:
        height === width
          ? `Set imageSize to ${String(height)}.`
          : 'The simulator renders squares: evaluate a policy of square images.',
      related: [{ at: ['datasets', 0], note: `'${dataset.name}'` }],
      fixes:
        height === width
          ? [
              {
                label: `Render ${String(height)} x ${String(height)} pixels`,
                kind: 'safe',
                edits: [{ kind: 'set', path: path(at), value: height }],
              },
            ]
          : [],
    })
  },
})
