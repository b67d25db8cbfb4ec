import { defineRule } from '../rule.ts'

export const checkpointBeyondRun = defineRule({
  id: 'VLA205',
  name: 'checkpoint-beyond-run',
  area: 'training',
  severity: 'warning',
  since: '0.1.0',
  summary: 'At least one checkpoint is written before the last update.',
  why: 'A crash or a preemption at any moment costs the whole run, since only the last update is saved.',
  fix: "Save more often, for instance every '10%'.",
  suppress: { allowed: true, when: 'The run is so short that starting over is cheaper than a checkpoint.' },
  sources: [
    {
      title: 'Eisenman et al. 2022, Check-N-Run',
      at: 'https://www.usenix.org/conference/nsdi22/presentation/eisenman',
      locator: 'section 2: training jobs fail, and lose what was not saved',
    },
  ],
  messages: { beyond: 'A checkpoint every {every} updates saves nothing before the end of a run of {updates}.' },
  valid: [{ caption: 'Every 100 of 1,000.', code: `checkpoint: { every: 100 },` }],
  invalid: [{ caption: 'Every 5,000 of 1,000.', code: `checkpoint: { every: 5_000 },` }],
  check({ plan, path, origin, report }) {
    const { every } = plan.checkpoint
    const { updates } = plan.training
    if (every < updates || origin(['checkpoint', 'every']) === 'default') return
    report({
      message: 'beyond',
      at: ['checkpoint', 'every'],
      data: { every, updates },
      related: [{ at: ['training', 'updates'], note: 'length of the run' }],
      fixes: [
        {
          label: "Save every '10%'",
          kind: 'safe',
          edits: [{ kind: 'set', path: path(['checkpoint', 'every']), value: '10%' }],
        },
      ],
    })
  },
})
