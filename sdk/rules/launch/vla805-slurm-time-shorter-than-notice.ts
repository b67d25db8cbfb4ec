import { defineRule } from '../rule.ts'
import { slurmSeconds } from '../setup.ts'

/** The script asks the run to stop this long before the limit (sdk/emit/launch/slurm.ts), and Slurm may be a minute early. */
const NOTICE = 120 + 60

export const slurmTimeShorterThanNotice = defineRule({
  id: 'VLA805',
  name: 'slurm-time-shorter-than-notice',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'A Slurm time limit is longer than the notice that the run gets before it.',
  why: 'Two minutes before the limit the run is asked to end after its current update, so that it can save and go back into the queue. With a limit below that it is asked at once, and comes back for ever without making an update.',
  fix: "Ask for as long as the queue allows, for instance time: '24:00:00'.",
  suppress: { allowed: false, because: 'The failure is certain: nothing is ever trained.' },
  sources: [
    { title: 'generated launcher', at: 'sdk/emit/launch/slurm.ts', locator: 'lead' },
    {
      title: 'Slurm, sbatch',
      at: 'https://slurm.schedmd.com/sbatch.html',
      locator: '--signal: may be sent up to 60 seconds earlier than specified',
    },
  ],
  messages: {
    short: "A time limit of '{time}' is {seconds} s, and the run is asked to stop up to {notice} s before it.",
  },
  valid: [{ caption: 'A day.', code: `launch: [slurm({ partition: 'gpu', time: '1-00:00:00' })],` }],
  invalid: [{ caption: 'Two minutes.', code: `launch: [slurm({ partition: 'gpu', time: '00:02:00' })],` }],
  check({ plan, report }) {
    plan.launch.forEach((launch, index) => {
      if (launch.kind !== 'slurm') return
      const seconds = slurmSeconds(launch.time)
      if (seconds === 0 || seconds > NOTICE) return // zero is no limit
      report({
        message: 'short',
        at: ['launch', index],
        path: ['launch', index, 'time'],
        data: { time: launch.time, seconds, notice: NOTICE },
      })
    })
  },
})
