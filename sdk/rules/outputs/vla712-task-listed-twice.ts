import { defineRule } from '../rule.ts'

export const taskListedTwice = defineRule({
  id: 'VLA712',
  name: 'task-listed-twice',
  area: 'outputs',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Each task is evaluated once.',
  why: 'The same seeds are rolled out again, with the same outcome, and the table has one row for both.',
  fix: 'Remove the second, or name the task that was meant.',
  suppress: { allowed: true, when: 'The list is made by a script that may repeat itself.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/rollout.py',
      locator: 'evaluate: summary by task',
    },
  ],
  messages: { twice: "The task '{task}' is listed twice." },
  valid: [
    {
      caption: 'Two tasks.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3', 'push-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'One task twice.',
      code: `evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3', 'reach-v3'], imageSize: 64 }),\nexport: [lerobot()],`,
    },
  ],
  check({ plan, report }) {
    plan.evaluate?.tasks.forEach((task, index, tasks) => {
      const first = tasks.indexOf(task)
      if (first === index) return
      const path = ['evaluate', 'tasks', index]
      report({
        message: 'twice',
        at: ['evaluate', 'tasks'],
        path,
        data: { task },
        related: [{ at: ['evaluate', 'tasks'], path: ['evaluate', 'tasks', first], note: 'the first' }],
        fixes: [{ label: 'Remove the second', kind: 'safe', edits: [{ kind: 'remove', path }] }],
      })
    })
  },
})
