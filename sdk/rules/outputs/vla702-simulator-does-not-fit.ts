import { defineRule } from '../rule.ts'

/** MetaWorld through LeRobot: one camera, the hand's position and opening, its motion and grip. */
const METAWORLD = { cameras: 1, state: 4, action: 4 } as const

export const simulatorDoesNotFit = defineRule({
  id: 'VLA702',
  name: 'simulator-does-not-fit',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'The simulator gives what the policy reads and takes what it emits.',
  why: 'The rollout stops at its first step, after the training has been paid for.',
  fix: 'Evaluate a policy of this robot, or leave `evaluate` out.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    {
      title: 'LeRobot 0.6.1',
      at: 'lerobot/envs/metaworld.py',
      locator: 'MetaworldEnv: observation_space (pixels, agent_pos 4), action_space 4',
    },
  ],
  messages: {
    cameras: 'MetaWorld gives one camera; the model has {count}.',
    state: 'MetaWorld gives a state of {given} dimensions; the policy reads {wanted}.',
    action: 'MetaWorld takes actions of {given} dimensions; the policy emits {wanted}.',
  },
  valid: [
    {
      caption: 'One camera, four dimensions.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'A seven-joint arm.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
      lock: { datasets: { 'data/reach': { features: { action: { shape: [7] } }, statistics: { action: null } } } },
      also: ['VLA505'],
    },
    {
      caption: 'A state of seven joints.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
      lock: {
        datasets: {
          'data/reach': {
            features: { 'observation.state': { shape: [7] } },
            statistics: { 'observation.state': null },
          },
        },
      },
      also: ['VLA505'],
    },
    {
      caption: 'Two cameras.',
      code: `model: composed({ cameras: ['front', 'wrist'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), promptTokens: 96 }),
cameras: { front: 'observation.image', wrist: 'observation.wrist' },
evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }),
export: [lerobot()],`,
      lock: {
        datasets: {
          'data/reach': {
            features: {
              'observation.wrist': { dtype: 'image', shape: [64, 64, 3], names: ['height', 'width', 'channels'] },
            },
          },
        },
      },
    },
  ],
  check({ plan, known, each, report }) {
    if (plan.evaluate === null) return
    const at = ['evaluate', 'env']
    const { cameras, stateDim, actionDim } = plan.model
    if (cameras.length !== METAWORLD.cameras) {
      report({
        message: 'cameras',
        at,
        path: ['evaluate'],
        data: { count: cameras.length },
        related: [{ at: ['model', 'cameras'], note: "the model's cameras" }],
      })
    }
    each([0], () => {
      const wanted = known(stateDim)
      if (wanted !== 0 && wanted !== METAWORLD.state)
        report({
          message: 'state',
          at,
          path: ['evaluate'],
          data: { given: METAWORLD.state, wanted },
          related: [{ at: ['model', 'stateDim'], note: 'the proprioception' }],
        })
    })
    each([0], () => {
      const wanted = known(actionDim)
      if (wanted !== METAWORLD.action)
        report({
          message: 'action',
          at,
          path: ['evaluate'],
          data: { given: METAWORLD.action, wanted },
          related: [{ at: ['model', 'actionDim'], note: 'the actions come from this data' }],
        })
    })
  },
})
