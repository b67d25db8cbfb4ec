import { metaworldTasks } from '../../catalog/metaworld.ts'
import { defineRule } from '../rule.ts'

export const unknownTask = defineRule({
  id: 'VLA706',
  name: 'unknown-task',
  area: 'outputs',
  severity: 'error',
  since: '0.1.0',
  summary: 'The simulator has the tasks that are to be evaluated.',
  why: 'The rollout stops before its first step, after the training has been paid for.',
  fix: 'Use a task of the simulator; MetaWorld 3 ends its names in -v3.',
  suppress: { allowed: false, because: 'The failure is certain.' },
  sources: [{ title: 'LeRobot 0.6.1', at: 'lerobot/envs/metaworld_config.json', locator: 'TASK_DESCRIPTIONS' }],
  messages: { unknown: "MetaWorld has no task '{task}'." },
  valid: [
    {
      caption: 'A task of version 3.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3', 'door-close-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'A name of version 2.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v2'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, report }) {
    plan.evaluate?.tasks.forEach((task, index) => {
      if (metaworldTasks.includes(task)) return
      const stem = task.replace(/-v\d+$/, '').toLowerCase()
      const near = metaworldTasks.filter(
        (known) => known === `${stem}-v3` || known.startsWith(`${stem}-`) || known.includes(stem),
      )
      const same = near.includes(`${stem}-v3`) ? `${stem}-v3` : undefined
      const path = ['evaluate', 'tasks', index]
      report({
        message: 'unknown',
        at: ['evaluate', 'tasks'],
        path,
        data: { task },
        fix:
          same !== undefined
            ? `Use '${same}'.`
            : near.length > 0 && near.length <= 6
              ? `Use one of ${near.join(', ')}.`
              : `It has ${metaworldTasks.join(', ')}.`,
        fixes:
          same === undefined
            ? []
            : [{ label: `Use '${same}'`, kind: 'safe', edits: [{ kind: 'set', path, value: same }] }],
      })
    })
  },
})
