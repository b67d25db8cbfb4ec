import { defineRule } from '../rule.ts'

export const stateIsAction = defineRule({
  id: 'VLA552',
  name: 'state-is-action',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: 'The state that the policy sees is not the action that it has to predict.',
  why: 'The answer is part of the question: the loss falls to nothing, and the robot, whose state is never the next action, stays where it is.',
  fix: 'Name the feature of the proprioception: `state` of lerobotDataset.',
  suppress: { allowed: false, because: 'The failure is silent: the training loss looks excellent.' },
  sources: [
    {
      title: 'LeRobot, dataset format',
      at: 'https://huggingface.co/docs/lerobot/lerobot-dataset-v3',
      locator: 'observation.state and action',
    },
    {
      title: 'de Haan et al. 2019, Causal Confusion in Imitation Learning',
      at: 'https://arxiv.org/abs/1905.11979',
      locator: 'section 2: access to more information can yield worse performance',
    },
  ],
  messages: { same: "The state and the action of '{dataset}' are one feature, '{feature}'." },
  valid: [
    { caption: 'Two features.', code: `data: lerobotDataset({ root: 'data/reach', state: 'observation.state' }),` },
  ],
  invalid: [{ caption: 'One.', code: `data: lerobotDataset({ root: 'data/reach', state: 'action' }),` }],
  check({ plan, each, report }) {
    each(plan.datasets, (dataset, index) => {
      if (dataset.state !== dataset.action) return
      report({
        message: 'same',
        at: ['datasets', index, 'state'],
        data: { dataset: dataset.name, feature: dataset.action },
        related: [{ at: ['datasets', index, 'action'], note: 'the action' }],
      })
    })
  },
})
