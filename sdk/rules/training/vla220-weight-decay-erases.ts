import { everTrains, rate } from '../facts.ts'
import { defineRule } from '../rule.ts'
import { meanFactor } from '../schedule.ts'

/** Weights shrink to a twentieth: exp(-3). */
const LIMIT = 3

export const weightDecayErases = defineRule({
  id: 'VLA220',
  name: 'weight-decay-erases',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Weight decay alone does not shrink a module to nothing within the run.',
  why: 'Decoupled decay multiplies every weight by 1 - learning rate x decay in each update, whatever the data says. Over the run the product of all these factors is what is left of the pretrained weights where no gradient puts them back.',
  fix: 'Use a smaller decay; published recipes have 0 to 0.1.',
  suppress: { allowed: true, when: 'The module starts from random values, and the run is long.' },
  sources: [
    {
      title: 'Loshchilov and Hutter 2019, Decoupled Weight Decay Regularization',
      at: 'https://arxiv.org/abs/1711.05101',
      locator: 'algorithm 2',
    },
  ],
  messages: {
    gone: "A decay of {decay} at a learning rate of {lr} over {updates} updates leaves {percent} % of the weights of '{module}'.",
  },
  valid: [
    {
      caption: 'A hundredth.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, weightDecay: 0.01 },`,
    },
  ],
  invalid: [
    {
      caption: 'A percentage in the place of a share.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3, weightDecay: 10 },`,
    },
  ],
  check({ plan, path, known, each, report }) {
    const { updates } = plan.training
    const mean = meanFactor(plan.training)
    const said = new Set<string>()
    each(plan.modules, (module, index) => {
      const lr = known(module.lr)
      if (lr === null || lr === 0 || !everTrains(module, updates)) return
      const exponent = lr * module.weightDecay * updates * mean
      const at = ['modules', index, 'weightDecay']
      const place = JSON.stringify(path(at))
      if (exponent <= LIMIT || said.has(place)) return
      said.add(place)
      report({
        message: 'gone',
        at,
        data: {
          decay: String(module.weightDecay),
          lr: rate(lr),
          updates,
          percent: String(Number((100 * Math.exp(-exponent)).toPrecision(2))),
          module: module.name,
        },
        fix: `A decay of at most ${rate(0.3 / (lr * updates * mean))} leaves three quarters of them.`,
        related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      })
    })
  },
})
