import { defineRule } from '../rule.ts'

export const slurmMinutes = defineRule({
  id: 'VLA803',
  name: 'slurm-minutes',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A Slurm time limit is written with hours, so that nobody reads minutes as hours.',
  why: "Slurm reads '24' and '24:00' as 24 minutes: the job is stopped long before it is done, and begins again if it may.",
  fix: "Write hours:minutes:seconds ('24:00:00') or days-hours ('1-0').",
  suppress: { allowed: true, when: 'Minutes are meant.' },
  sources: [
    {
      title: 'Slurm, sbatch',
      at: 'https://slurm.schedmd.com/sbatch.html',
      locator: '--time: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", ...',
    },
  ],
  messages: { minutes: "Slurm reads '{time}' as {minutes} minutes." },
  valid: [
    { caption: 'A day.', code: `launch: [slurm({ partition: 'gpu', time: '24:00:00' })],` },
    { caption: 'Two days.', code: `launch: [slurm({ partition: 'gpu', time: '2-00' })],` },
  ],
  invalid: [
    { caption: 'Minutes and seconds.', code: `launch: [slurm({ partition: 'gpu', time: '24:00' })],` },
    { caption: 'Minutes.', code: `launch: [slurm({ partition: 'gpu', time: '24' })],` },
  ],
  check({ plan, report }) {
    plan.launch.forEach((launch, index) => {
      const match = launch.kind === 'slurm' ? /^(\d+)(:\d\d)?$/.exec(launch.time) : null
      if (match === null || launch.kind !== 'slurm') return
      const [, minutes = '0'] = match
      const path = ['launch', index, 'time']
      const hours = `${minutes}:00:00`
      const same = `${String(Math.floor(Number(minutes) / 60)).padStart(2, '0')}:${String(Number(minutes) % 60).padStart(2, '0')}${match[2] ?? ':00'}`
      report({
        message: 'minutes',
        at: ['launch', index],
        path,
        data: { time: launch.time, minutes: Number(minutes) },
        fix: `Write '${hours}' for ${minutes} hours, or '${same}' for ${minutes} minutes.`,
        fixes: [
          { label: `Write '${hours}'`, kind: 'suggestion', edits: [{ kind: 'set', path, value: hours }] },
          { label: `Write '${same}'`, kind: 'suggestion', edits: [{ kind: 'set', path, value: same }] },
        ],
      })
    })
  },
})
