import { defineRule } from '../rule.ts'

export const startedByHand = defineRule({
  id: 'VLA804',
  name: 'started-by-hand',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A run on several nodes has a launcher that starts all of them.',
  why: 'launch/local.sh starts the processes of one node. On each of the others somebody has to start it too, with the address of the first, before the rendezvous times out after five minutes.',
  fix: "Add slurm({ partition: '...', time: '24:00:00' }) to `launch`.",
  suppress: { allowed: true, when: 'Another scheduler starts launch/local.sh on every node.' },
  sources: [
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/timeouts.py', locator: 'RENDEZVOUS' },
    { title: 'generated launcher', at: 'sdk/emit/launch/local.ts', locator: 'localScript' },
  ],
  messages: { alone: 'The run has {nodes} nodes, and nothing that is declared starts more than one of them.' },
  valid: [
    {
      caption: 'Slurm starts both nodes.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 8, nodes: 2 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 4, lr: 1e-3 },
launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00' })],`,
    },
    {
      caption: 'One node is started by hand or by whatever there is (LLaMA-Factory issue 6766 refuses it).',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 8, lr: 1e-3 },`,
    },
  ],
  invalid: [
    {
      caption: 'Two nodes and torchrun alone.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 8, nodes: 2 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 4, lr: 1e-3 },`,
    },
  ],
  check({ plan, report }) {
    const { nodes } = plan.hardware
    if (nodes === 1 || plan.launch.some(({ kind }) => kind === 'slurm')) return
    report({
      message: 'alone',
      at: ['launch'],
      data: { nodes },
      related: [{ at: ['hardware', 'nodes'], note: `${String(nodes)} nodes` }],
    })
  },
})
