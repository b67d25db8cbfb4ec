import { defineRule } from '../rule.ts'

export const launchedTwice = defineRule({
  id: 'VLA802',
  name: 'launched-twice',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'Each way of launching is declared once.',
  why: 'A launcher is written to a file of its name: the second would be written over the first.',
  fix: 'Keep one; options of sbatch can be given on its command line.',
  suppress: { allowed: false, because: 'The failure is certain: one of the launchers is lost.' },
  sources: [{ title: 'generated project', at: 'sdk/emit/launch/slurm.ts', locator: 'launch/slurm.sbatch' }],
  messages: { twice: "The launcher '{kind}' is declared twice." },
  valid: [{ caption: 'Two ways.', code: `launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00' })],` }],
  invalid: [
    {
      caption: 'Two partitions.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00' }), slurm({ partition: 'preempt', time: '24:00:00' })],`,
    },
  ],
  check({ plan, report }) {
    plan.launch.forEach(({ kind }, index) => {
      const first = plan.launch.findIndex((other) => other.kind === kind)
      if (first === index) return
      report({
        message: 'twice',
        at: ['launch'],
        path: ['launch', index],
        data: { kind },
        related: [{ at: ['launch'], path: ['launch', first], note: 'the first' }],
        fixes: [
          { label: 'Remove the second', kind: 'suggestion', edits: [{ kind: 'remove', path: ['launch', index] }] },
        ],
      })
    })
  },
})
