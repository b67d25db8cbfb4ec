import { everTrains, rate } from '../facts.ts'
import { defineRule } from '../rule.ts'

/** AdamW moves every weight by about this much in an update, whatever its gradient; initial weights are a few hundredths. */
const LIMIT = 1e-2
/** A hundredth of the smallest published rate. Zero has a rule of its own. */
const LEAST = 1e-8

export const learningRateImplausible = defineRule({
  id: 'VLA219',
  name: 'learning-rate-implausible',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A learning rate of AdamW is at most 0.01, and at least 1e-8.',
  why: 'AdamW moves each weight by about the learning rate in every update, however small its gradient: above a hundredth nothing of pretrained weights is left after some ten updates, and a run from the start does not settle. Published recipes of VLAs lie between 1e-6 and 1e-3; the exponent is usually missing.',
  fix: 'Look at the exponent: 2e-5, not 2.',
  suppress: { allowed: true, when: 'The module is tiny, and you have seen it train at this rate.' },
  sources: [
    {
      title: 'Kingma and Ba 2015, Adam',
      at: 'https://arxiv.org/abs/1412.6980',
      locator: 'section 2.1: the step is bounded by the learning rate',
    },
    { title: 'OpenVLA', at: 'https://arxiv.org/abs/2406.09246', locator: 'learning rate 2e-5; adapters 5e-4' },
  ],
  messages: {
    high: "The learning rate of '{module}' is {lr}.",
    low: "The learning rate of '{module}' is {lr}: in {updates} updates AdamW moves no weight by more than {most}.",
  },
  valid: [
    {
      caption: 'A small network from the start.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },`,
    },
  ],
  invalid: [
    {
      caption: 'A slip in the exponent.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 2e-11 },`,
    },
    {
      caption: 'The exponent got lost.',
      code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 0.5 },`,
    },
    { caption: 'Of one module, beside a slow one.', code: `modules: { action: { lr: 0.05 } },` },
  ],
  check({ plan, path, known, each, report }) {
    const said = new Set<string>() // one finding for a rate that several modules share
    each(plan.modules, (module, index) => {
      const lr = known(module.lr)
      if (lr === null || lr === 0 || (lr <= LIMIT && lr >= LEAST) || !everTrains(module, plan.training.updates)) return
      const at = ['modules', index, 'lr']
      const place = JSON.stringify(path(at))
      if (said.has(place)) return
      said.add(place)
      if (lr > LIMIT) {
        report({ message: 'high', at, data: { module: module.name, lr: rate(lr) } })
        return
      }
      const { updates } = plan.training
      const data = { module: module.name, lr: rate(lr), updates, most: rate(lr * updates) }
      report({ message: 'low', at, data, fix: 'Most slips are in the exponent: 2e-5, not 2e-11.' })
    })
  },
})
