import { defineRule } from '../rule.ts'

export const tokensOutOfBounds = defineRule({
  id: 'VLA515',
  name: 'tokens-out-of-bounds',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'Action tokens are made of actions that are normalised to [-1, 1].',
  why: 'The bins lie between -1 and 1 and everything beyond falls into the outermost: with meanStd a third of normally distributed actions, raw actions in other units nearly all.',
  fix: "Use 'quantiles' (as OpenVLA) or 'minMax' for actions.",
  suppress: { allowed: false, because: 'The failure is silent: clipped actions look like any other tokens.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/vla/action_tokenizer.py',
      locator: '__call__: np.clip(action, min_action, max_action), then digitize',
    },
  ],
  messages: {
    unbounded: "Action tokens cover [-1, 1], but actions are normalised by '{mode}'.",
    raw: "Action tokens cover [-1, 1], but '{feature}' of '{dataset}' is not normalised and reaches from {low} to {high}.",
  },
  valid: [
    {
      caption: 'Quantiles.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
normalize: { action: 'quantiles' },`,
    },
    {
      caption: 'Raw actions that lie in [-1, 1].',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
normalize: { action: 'identity' },`,
    },
  ],
  invalid: [
    {
      caption: 'Mean and standard deviation.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
normalize: { action: 'meanStd' },`,
    },
    {
      caption: 'Joint angles in degrees.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }),
normalize: { action: 'identity' },`,
      lock: {
        datasets: { 'data/reach': { statistics: { action: { min: [-90, -90, -90, 0], max: [90, 90, 90, 1] } } } },
      },
    },
  ],
  check({ plan, known, each, path, report }) {
    if (plan.model.family === 'lerobot' || plan.model.action.decoder !== 'tokens') return
    const { action: mode } = plan.normalize
    const at = ['normalize', 'action']
    const fixes = [
      {
        label: "Use 'quantiles'",
        kind: 'suggestion' as const,
        edits: [{ kind: 'set' as const, path: path(at), value: 'quantiles' }],
      },
    ]
    const related = [{ at: ['model', 'action', 'decoder'], path: ['model', 'action'], note: 'action tokens' }]
    if (mode === 'meanStd') report({ message: 'unbounded', at, data: { mode }, related, fixes })
    if (mode !== 'identity') return
    each(plan.datasets, (dataset) => {
      const all: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>> = known(
        dataset.statistics,
      )
      const own = all[dataset.action]
      const low = Math.min(...(own?.['min'] ?? []).filter((value) => value !== null))
      const high = Math.max(...(own?.['max'] ?? []).filter((value) => value !== null))
      if (low >= -1 && high <= 1) return
      report({
        message: 'raw',
        at,
        data: { feature: dataset.action, dataset: dataset.name, low: String(low), high: String(high) },
        related,
        fixes,
      })
    })
  },
})
