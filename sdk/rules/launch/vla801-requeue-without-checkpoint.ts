import { defineRule } from '../rule.ts'

export const requeueWithoutCheckpoint = defineRule({
  id: 'VLA801',
  name: 'requeue-without-checkpoint',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: 'A job that is put back into the queue has a checkpoint to resume from.',
  why: 'A preempted job begins anew each time; where preemptions come faster than the run is long, it never ends and never fails.',
  fix: 'Save within the run, or set requeue: false.',
  suppress: { allowed: false, because: 'The failure is silent: the job runs, again and again.' },
  sources: [
    {
      title: 'Slurm, sbatch',
      at: 'https://slurm.schedmd.com/sbatch.html',
      locator: '--requeue: the batch script is initiated from its beginning',
    },
    {
      title: 'torchrun',
      at: 'https://docs.pytorch.org/docs/2.11/elastic/run.html',
      locator: 'on restart the script has to load its last checkpoint',
    },
  ],
  messages: {
    never: 'The job is put back into the queue when it is preempted, but nothing is saved before update {updates}.',
  },
  valid: [
    {
      caption: 'Saved ten times.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00' })],\ncheckpoint: { every: '10%' },`,
    },
  ],
  invalid: [
    {
      caption: 'Saved at the end only.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00' })],\ncheckpoint: { every: '100%' },`,
      also: ['VLA205'],
    },
  ],
  check({ plan, report }) {
    const { updates } = plan.training
    if (plan.checkpoint.every < updates) return
    plan.launch.forEach((launch, index) => {
      if (launch.kind !== 'slurm' || !launch.requeue) return
      report({
        message: 'never',
        at: ['launch', index],
        path: ['launch', index],
        data: { updates },
        related: [{ at: ['checkpoint', 'every'], note: 'when it is saved' }],
        fixes: [],
      })
    })
  },
})
