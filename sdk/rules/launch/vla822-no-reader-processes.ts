import { defineRule } from '../rule.ts'

export const noReaderProcesses = defineRule({
  id: 'VLA822',
  name: 'no-reader-processes',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'On GPUs samples are read by processes of their own.',
  why: 'With 0 workers the training process itself reads and decodes every image between two updates, and the GPU waits for it.',
  fix: 'Use 4 workers per GPU and look at the data time in the metrics, or leave `loader` out.',
  suppress: {
    allowed: true,
    when: 'A fault in the reading is being looked for, or the images are tiny and the GPU never waits.',
  },
  sources: [
    {
      title: 'torch 2.11',
      at: 'https://docs.pytorch.org/docs/2.11/data.html#single-and-multi-process-data-loading',
      locator: 'in single-process loading, data fetching may block computing',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/order.py', locator: 'OrderedSamples: workers' },
  ],
  messages: { none: 'The training process reads and decodes the samples itself: loader.workers is 0.' },
  valid: [
    {
      caption: 'Four per GPU.',
      code: `hardware: gpus('A100-SXM-80GB', { perNode: 2 }),\nloader: { workers: 4 },`,
    },
    { caption: 'On CPUs, where readers would take time from the training.', code: `loader: { workers: 0 },` },
  ],
  invalid: [
    { caption: 'None on GPUs.', code: `hardware: gpus('A100-SXM-80GB', { perNode: 2 }),\nloader: { workers: 0 },` },
  ],
  check({ plan, path, report }) {
    if (plan.hardware.kind !== 'gpus' || plan.loader.workers > 0) return
    const at = ['loader', 'workers']
    report({
      message: 'none',
      at,
      data: {},
      related: [{ at: ['hardware', 'gpu'], note: 'GPUs' }],
      fixes: [{ label: 'Use 4 workers', kind: 'safe', edits: [{ kind: 'set', path: path(at), value: 4 }] }],
    })
  },
})
