import { defineRule } from '../rule.ts'

/** What wandb refuses in the name of a project, and how long one may be. */
const FORBIDDEN = /[/\\#?%:]/g
const LONGEST = 128

export const wandbNameNotAllowed = defineRule({
  id: 'VLA851',
  name: 'wandb-name-not-allowed',
  area: 'tracking',
  severity: 'error',
  since: '0.1.0',
  summary: 'The project is a name that Weights & Biases takes.',
  why: 'wandb refuses the name when the run starts, after the nodes have been allocated.',
  fix: 'Use letters, digits, hyphens, underscores and dots, at most 128 of them; the team goes into `entity`.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [
    { title: 'wandb 0.27', at: 'wandb/sdk/wandb_settings.py', locator: 'validate_project: invalid_chars_list' },
  ],
  messages: {
    character: "The project '{project}' holds {characters}, which wandb refuses.",
    long: 'The name of the project has {length} characters; wandb takes {longest}.',
  },
  valid: [{ caption: 'A team and a project.', code: `track: [wandb({ entity: 'robots', project: 'arm-reach' })],` }],
  invalid: [
    { caption: 'The team in the name.', code: `track: [wandb({ project: 'robots/arm-reach' })],` },
    {
      caption: 'A sentence.',
      code: `track: [wandb({ project: '${'reaching for the cup with both arms '.repeat(4).trim()}' })],`,
    },
  ],
  check({ plan, report }) {
    plan.track.forEach((tracker, index) => {
      if (tracker.kind !== 'wandb') return
      const { project } = tracker
      const at = ['track']
      const path = ['track', index, 'project']
      const characters = [...new Set(project.match(FORBIDDEN) ?? [])]
      const [team, name, ...rest] = project.split('/')
      const splits =
        team !== '' && name !== undefined && name !== '' && rest.length === 0 && characters.join('') === '/'
      if (characters.length > 0)
        report({
          message: 'character',
          at,
          path,
          data: { project, characters: characters.map((character) => `'${character}'`).join(' and ') },
          ...(splits ? { fix: `Write entity: '${team ?? ''}', project: '${name}'.` } : {}),
          fixes: splits
            ? [
                {
                  label: `Make '${team ?? ''}' the entity`,
                  kind: 'safe',
                  edits: [
                    { kind: 'set', path, value: name },
                    { kind: 'set', path: ['track', index, 'entity'], value: team ?? '' },
                  ],
                },
              ]
            : [],
        })
      else if (project.length > LONGEST)
        report({ message: 'long', at, path, data: { length: project.length, longest: LONGEST } })
    })
  },
})
