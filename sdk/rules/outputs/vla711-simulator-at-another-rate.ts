import { metaworldRate } from '../../catalog/metaworld.ts'
import { defineRule } from '../rule.ts'

export const simulatorAtAnotherRate = defineRule({
  id: 'VLA711',
  name: 'simulator-at-another-rate',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'The simulator steps at the rate at which the data was recorded.',
  why: 'An action holds for one step. At another rate every movement is longer or shorter than the one that was learnt, and the policy misses without a sign.',
  fix: 'Record at the rate of the simulator, or evaluate in one that has the rate of the data.',
  suppress: { allowed: false, because: 'The failure is silent: the policy runs, and fails.' },
  sources: [
    { title: 'LeRobot', at: 'lerobot/envs/metaworld.py', locator: 'metadata: render_fps 80' },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/simulation.py', locator: 'FPS' },
  ],
  messages: { rate: "MetaWorld steps at {rate} Hz, and '{dataset}' was recorded at {fps} Hz." },
  valid: [
    {
      caption: 'Eighty and eighty.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Data of a real arm.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
      lock: { datasets: { 'data/reach': { fps: 30 } } },
    },
  ],
  check({ plan, known, report }) {
    const [dataset] = plan.datasets
    if (plan.evaluate === null || dataset === undefined) return
    const fps = known(dataset.fps)
    if (Math.abs(fps - metaworldRate) < 1e-6 * metaworldRate) return
    report({
      message: 'rate',
      at: ['evaluate', 'env'],
      data: { rate: metaworldRate, dataset: dataset.name, fps },
      related: [{ at: ['datasets', 0], note: `'${dataset.name}'` }],
    })
  },
})
