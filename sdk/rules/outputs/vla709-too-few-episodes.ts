import { defineRule } from '../rule.ts'

const FEWEST = 5

export const tooFewEpisodes = defineRule({
  id: 'VLA709',
  name: 'too-few-episodes',
  area: 'outputs',
  severity: 'warning',
  since: '0.1.0',
  summary: 'An evaluation has at least five episodes per task.',
  why: 'Success is a coin that is thrown once per episode. With a few throws a good policy and a poor one cannot be told apart, and the better of two checkpoints is the luckier one.',
  fix: 'Use 20 episodes or more.',
  suppress: { allowed: true, when: 'Only whether the rollout works at all is to be seen.' },
  sources: [
    { title: 'Wilson 1927', at: 'https://doi.org/10.1080/01621459.1927.10502953', locator: 'the interval of a share' },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/rollout.py', locator: 'summarise: 95 % interval' },
  ],
  messages: {
    few: 'With {episodes} episodes, a policy that solves half of them is known to solve between {low} and {high} %.',
  },
  valid: [
    {
      caption: 'Twenty.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, episodes: 20 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'Three.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64, episodes: 3 }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, path, report }) {
    if (plan.evaluate === null || plan.evaluate.episodes >= FEWEST) return
    const { episodes } = plan.evaluate
    const at = ['evaluate', 'episodes']
    const half = 1.96 * Math.sqrt(0.25 / episodes + (1.96 / (2 * episodes)) ** 2)
    const width = (100 * half) / (1 + 1.96 ** 2 / episodes)
    report({
      message: 'few',
      at,
      data: { episodes, low: Math.round(50 - width), high: Math.round(50 + width) },
      fixes: [{ label: 'Use 20', kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: 20 }] }],
    })
  },
})
