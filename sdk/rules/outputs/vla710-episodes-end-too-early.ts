import { defineRule } from '../rule.ts'

export const episodesEndTooEarly = defineRule({
  id: 'VLA710',
  name: 'episodes-end-too-early',
  area: 'outputs',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A rollout may take longer than a demonstration did.',
  why: 'An episode that is cut off counts as failed. With fewer steps than the mean demonstration, even a policy that copies its expert fails half of the time.',
  fix: 'Allow twice the steps of a demonstration.',
  suppress: { allowed: true, when: 'The policy is to be faster than its demonstrations.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/rollout.py',
      locator: 'max_steps: steps after which an episode has failed',
    },
  ],
  messages: { early: "A rollout ends after {steps} steps; the demonstrations of '{dataset}' take {mean} in the mean." },
  valid: [
    {
      caption: 'Longer than sixty frames.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, maxSteps: 120 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Half of a demonstration.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, maxSteps: 30 }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, path, known, report }) {
    const [dataset] = plan.datasets
    if (plan.evaluate === null || dataset === undefined) return
    const episodes = known(dataset.episodes)
    const mean = known(dataset.frames) / Math.max(1, episodes)
    const steps = plan.evaluate.maxSteps
    if (steps >= mean) return
    const enough = Math.ceil((2 * mean) / 50) * 50
    const at = ['evaluate', 'maxSteps']
    report({
      message: 'early',
      at,
      data: { steps, dataset: dataset.name, mean: Number(mean.toFixed(1)) },
      related: [{ at: ['datasets', 0], note: `'${dataset.name}'` }],
      fixes: [
        {
          label: `Allow ${String(enough)} steps`,
          kind: 'suggestion',
          edits: [{ kind: 'set', path: path(at), value: enough }],
        },
      ],
    })
  },
})
