import { defineRule } from '../rule.ts'

/** NVIDIA's largest node. */
const MOST = 16
/** What nearly every node with datacentre GPUs has. */
const USUAL = 8

export const moreGpusThanANodeHas = defineRule({
  id: 'VLA819',
  name: 'more-gpus-than-a-node-has',
  area: 'launch',
  severity: 'error',
  since: '0.1.0',
  summary: '`perNode` counts the GPUs of one node.',
  why: 'The number of all GPUs in its place asks the scheduler for a node that does not exist, and the job waits in the queue for ever.',
  fix: 'Say how many GPUs one node has, and how many nodes there are.',
  suppress: { allowed: true, when: 'Your machine has more GPUs in one node.' },
  sources: [
    {
      title: 'NVIDIA DGX-2',
      at: 'https://www.nvidia.com/en-us/data-center/dgx-2/',
      locator: '16 GPUs in one node, the most that there is',
    },
    { title: 'generated launcher', at: 'sdk/emit/launch/slurm.ts', locator: '--gpus-per-node' },
  ],
  messages: { many: '{perNode} GPUs per node: no node has more than {most}.' },
  valid: [
    {
      caption: 'Eight nodes of eight.',
      code: `hardware: gpus('H100-SXM-80GB', { perNode: 8, nodes: 8 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 1, lr: 1e-3 },
launch: [slurm({ partition: 'gpu', time: '24:00:00' })],`,
    },
  ],
  invalid: [
    {
      caption: 'All of the cluster in one node.',
      code: `hardware: gpus('H100-SXM-80GB', { perNode: 64 }),
training: { updates: 1_000, globalBatch: 64, microBatch: 1, lr: 1e-3 },
launch: [slurm({ partition: 'gpu', time: '24:00:00' })],`,
    },
  ],
  check({ plan, path, report }) {
    const { hardware } = plan
    if (hardware.kind !== 'gpus' || hardware.perNode <= MOST) return
    const nodes = (hardware.perNode * hardware.nodes) / USUAL
    const at = ['hardware', 'perNode']
    report({
      message: 'many',
      at,
      data: { perNode: hardware.perNode, most: MOST },
      fixes: Number.isInteger(nodes)
        ? [
            {
              label: `Make it ${String(nodes)} nodes of ${String(USUAL)}`,
              kind: 'suggestion',
              edits: [
                { kind: 'set', path: path(at), value: USUAL },
                { kind: 'set', path: ['hardware', 'nodes'], value: nodes },
              ],
            },
          ]
        : [],
    })
  },
})
