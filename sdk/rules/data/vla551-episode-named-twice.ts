import { isKnown } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const episodeNamedTwice = defineRule({
  id: 'VLA551',
  name: 'episode-named-twice',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A list of episodes names each once.',
  why: 'The second mention has no effect: the list has fewer episodes than it seems, and usually another one was meant.',
  fix: 'Name the episode that was meant, or remove the second mention.',
  suppress: { allowed: true, when: 'The list is made by a script that may repeat itself.' },
  sources: [
    { title: 'LeRobot', at: 'lerobot/configs/default.py', locator: 'episodes must not repeat' },
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/datasets.py',
      locator: 'Source: episodes as a set',
    },
  ],
  messages: { twice: "Episode {episode} of '{dataset}' is named twice in `{option}`." },
  valid: [{ caption: 'Each once.', code: `data: lerobotDataset({ root: 'data/reach', episodes: [0, 1, 2, 3] }),` }],
  invalid: [
    { caption: 'Used twice.', code: `data: lerobotDataset({ root: 'data/reach', episodes: [0, 1, 2, 2] }),` },
    { caption: 'Held out twice.', code: `data: lerobotDataset({ root: 'data/reach', holdout: [7, 8, 8] }),` },
  ],
  check({ plan, path, declared, each, report }) {
    each(plan.datasets, (dataset, index) => {
      for (const [field, option, list] of [
        ['selected', 'episodes', dataset.selected ?? []],
        ['holdout', 'holdout', isKnown(dataset.holdout) ? dataset.holdout : []],
      ] as const) {
        const at = ['datasets', index, field]
        if (!declared(at)) continue
        const second = list.findIndex((episode, place) => list.indexOf(episode) < place)
        if (second < 0) continue
        const place = [...path(at), second]
        report({
          message: 'twice',
          at,
          path: place,
          data: { episode: String(list[second]), dataset: dataset.name, option },
          fixes: [{ label: 'Remove the second mention', kind: 'safe', edits: [{ kind: 'remove', path: place }] }],
        })
      }
    })
  },
})
