import { defineRule } from '../rule.ts'

/** Scored over trained samples at which scoring takes a tenth of the time: a forward pass is a third of an update. */
const SHARE = 0.3

export const validationOutweighsTraining = defineRule({
  id: 'VLA224',
  name: 'validation-outweighs-training',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Between two losses on the held-out episodes more is trained than is scored.',
  why: 'Every scoring looks at all frames that are held out. Where these are more than the samples of the updates between two scorings, a third of the time and more goes into scoring.',
  fix: 'Score less often, or hold fewer episodes out.',
  suppress: { allowed: true, when: 'The curve is what the run is for.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/order.py',
      locator: 'holdout_loss: every held-out frame once',
    },
  ],
  messages: {
    heavy: 'Every {every} updates, which see {trained} samples, {held} held-out frames are scored.',
  },
  valid: [
    {
      caption: 'Five episodes every hundred updates.',
      code: `data: lerobotDataset({ root: 'data/reach', holdout: '5%' }),
training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 100 },`,
    },
  ],
  invalid: [
    {
      caption: 'A fifth of the data every ten updates.',
      code: `data: lerobotDataset({ root: 'data/reach', holdout: '20%' }),
training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, validateEvery: 10 },`,
    },
  ],
  check({ plan, path, known, report }) {
    const { validateEvery: every, globalBatch, updates } = plan.training
    if (every === 0) return
    const held = plan.datasets.reduce((sum, dataset) => {
      const count = new Set(known(dataset.holdout)).size
      if (count === 0) return sum
      const episodes = known(dataset.episodes)
      return count >= episodes ? sum : sum + (count * known(dataset.frames)) / episodes // all of them: VLA508
    }, 0)
    const trained = every * globalBatch
    if (held <= trained) return
    const rarely = Math.ceil(held / (SHARE * globalBatch))
    const at = ['training', 'validateEvery']
    report({
      message: 'heavy',
      at,
      data: { every, trained, held: Math.round(held) },
      fix:
        rarely <= updates
          ? `Every ${String(rarely)} updates, scoring takes a tenth of the time; or hold fewer episodes out.`
          : 'Hold fewer episodes out: the run is too short to score so many.',
      fixes:
        rarely <= updates
          ? [
              {
                label: `Score every ${String(rarely)} updates`,
                kind: 'suggestion',
                edits: [{ kind: 'set', path: path(at), value: rarely }],
              },
            ]
          : [],
    })
  },
})
