import { defineRule } from '../rule.ts'
import { slurmSeconds } from '../setup.ts'

export const slurmNoLimit = defineRule({
  id: 'VLA814',
  name: 'slurm-no-limit',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A Slurm job has a time limit.',
  why: 'Slurm takes a limit of zero for no limit: many partitions refuse the job, and where it is taken, a run that hangs holds its nodes until somebody looks.',
  fix: "Write how long the run may take, for instance time: '2-00:00:00'; a job that needs longer goes back into the queue and resumes.",
  suppress: { allowed: true, when: 'The partition has no limits, and somebody looks after the job.' },
  sources: [
    {
      title: 'Slurm, sbatch',
      at: 'https://slurm.schedmd.com/sbatch.html',
      locator: '--time: a time limit of zero requests that no time limit be imposed',
    },
  ],
  messages: { none: "Slurm reads '{time}' as no limit at all." },
  valid: [{ caption: 'Two days.', code: `launch: [slurm({ partition: 'gpu', time: '2-00:00:00' })],` }],
  invalid: [{ caption: 'Zero.', code: `launch: [slurm({ partition: 'gpu', time: '00:00:00' })],` }],
  check({ plan, report }) {
    plan.launch.forEach((launch, index) => {
      if (launch.kind !== 'slurm' || slurmSeconds(launch.time) > 0) return
      report({
        message: 'none',
        at: ['launch', index],
        path: ['launch', index, 'time'],
        data: { time: launch.time },
      })
    })
  },
})
