import { isKnown } from '../../plan/plan.ts'
import { everTrains, rate } from '../facts.ts'
import { defineRule } from '../rule.ts'

const LIMIT = 50
/** 1e-4 / 2e-6 is 50.000000000000007 in binary; exactly 50 is fine. */
const TOLERANCE = 1e-9

/** Two rates may be too far apart for their ratio to be a number. */
function times(ratio: number): number | string {
  return ratio < 1e6 ? Number(ratio.toPrecision(3)) : 'over a million'
}

export const lrRatio = defineRule({
  id: 'VLA203',
  name: 'lr-ratio',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The learning rates of two modules do not differ by more than a factor of 50.',
  why: 'The fast module adapts to a slow one that has hardly moved: features drift under the head, and the slow module might as well be frozen.',
  fix: 'Bring the two closer, or freeze the slow module for a part of the run.',
  suppress: {
    allowed: true,
    when: 'The slow module is pretrained and the fast one is new, and you have compared a smaller ratio.',
  },
  sources: [
    {
      title: 'OpenVLA fine-tuning recipes',
      at: 'https://github.com/openvla/openvla',
      locator: 'full fine-tuning 2e-5, LoRA 5e-4: 25 between the two extremes',
    },
    {
      title: 'Howard and Ruder 2018, Universal Language Model Fine-tuning',
      at: 'https://arxiv.org/abs/1801.06146',
      locator: 'section 3.2: discriminative learning rates, 2.6 between neighbouring layers',
    },
  ],
  messages: { far: "The learning rate of '{fast}' ({fastLr}) is {ratio} times that of '{slow}' ({slowLr})." },
  valid: [
    {
      caption: 'Exactly 50.',
      code: `modules: { vision: { lr: 2e-6 }, projector: { lr: 1e-4 }, language: { lr: 2e-5 }, action: { lr: 1e-4 } },`,
    },
    {
      caption: 'A frozen module has no rate to compare.',
      code: `modules: { vision: { freeze: 'always' }, projector: { lr: 1e-3 }, language: { lr: 1e-3 }, action: { lr: 1e-3 } },`,
    },
  ],
  invalid: [
    {
      caption: '500.',
      code: `modules: { vision: { lr: 2e-6 }, projector: { lr: 1e-3 }, language: { lr: 1e-4 }, action: { lr: 1e-3 } },`,
    },
  ],
  check({ plan, report }) {
    const trained = plan.modules.flatMap((module, index) => {
      const lr = isKnown(module.lr) ? module.lr : null
      return lr !== null && lr > 0 && everTrains(module, plan.training.updates)
        ? [{ name: module.name, index, lr }]
        : []
    })
    const slow = trained.reduce<(typeof trained)[number] | undefined>(
      (best, entry) => (best === undefined || entry.lr < best.lr ? entry : best),
      undefined,
    )
    const fast = trained.reduce<(typeof trained)[number] | undefined>(
      (best, entry) => (best === undefined || entry.lr > best.lr ? entry : best),
      undefined,
    )
    if (slow === undefined || fast === undefined || fast.lr / slow.lr <= LIMIT * (1 + TOLERANCE)) return
    report({
      message: 'far',
      at: ['modules', slow.index, 'lr'],
      data: {
        fast: fast.name,
        fastLr: rate(fast.lr),
        slow: slow.name,
        slowLr: rate(slow.lr),
        ratio: times(fast.lr / slow.lr),
      },
      fix: `Raise '${slow.name}' to at least ${rate(fast.lr / LIMIT)}, lower '${fast.name}' to at most ${rate(slow.lr * LIMIT)}, or freeze the slow module.`,
      related: [{ at: ['modules', fast.index, 'lr'], note: `the learning rate of '${fast.name}'` }],
    })
  },
})
