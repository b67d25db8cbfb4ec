import { chunkOf } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const chunkLongerThanEpisodes = defineRule({
  id: 'VLA206',
  name: 'chunk-longer-than-episodes',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'The action chunk is shorter than an episode of the dataset.',
  why: 'What reaches past the end of an episode is padding that does not count: most of each chunk would never be trained.',
  fix: 'Shorten the chunk.',
  suppress: {
    allowed: true,
    when: 'Episodes are short on purpose, and the policy is asked again before its chunk runs out.',
  },
  sources: [
    {
      title: 'LeRobot 0.6.1',
      at: 'lerobot/policies/act/modeling_act.py',
      locator: 'action_is_pad: what lies behind the end of an episode',
    },
    {
      title: 'openpi issue 681',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/681',
      locator: 'padded actions at the end of episodes',
    },
  ],
  messages: { long: "A chunk of {chunk} actions is longer than the mean episode of '{dataset}' ({mean} frames)." },
  valid: [{ caption: '8 of 60 frames.', code: `name: 'short-chunk',` }],
  invalid: [
    {
      caption: '8 of 5 frames.',
      code: `name: 'short-episodes',`,
      lock: { datasets: { 'data/reach': { episodes: 1_000, frames: 5_000 } } },
    },
  ],
  check({ plan, known, each, report }) {
    const { chunk: size, at } = chunkOf(plan.model)
    const chunk = known(size)
    each(plan.datasets, (dataset, index) => {
      const episodes = known(dataset.episodes)
      const frames = known(dataset.frames)
      if (episodes === 0 || chunk <= frames / episodes) return
      const mean = Number((frames / episodes).toFixed(1))
      report({
        message: 'long',
        at,
        data: { chunk, dataset: dataset.name, mean },
        fix: `Use a chunk of at most ${String(Math.max(1, Math.floor(mean)))}.`,
        related: [{ at: ['datasets', index], note: `'${dataset.name}'` }],
      })
    })
  },
})
