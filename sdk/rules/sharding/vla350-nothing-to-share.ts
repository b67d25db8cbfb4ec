import { defineRule } from '../rule.ts'

export const nothingToShare = defineRule({
  id: 'VLA350',
  name: 'nothing-to-share',
  area: 'sharding',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A way of sharing the work is declared for more than one process.',
  why: 'One process shards over itself alone and has nobody to synchronise with: the option has no effect, and the processes that it was meant for are missing from `hardware`.',
  fix: 'Say how many GPUs there are, gpus(..., { perNode: 8 }), or remove `parallel`.',
  suppress: { allowed: true, when: 'The line is shared with a pipeline of more processes.' },
  sources: [
    {
      title: 'accelerate',
      at: 'https://github.com/huggingface/accelerate/blob/main/src/accelerate/parallelism_config.py',
      locator: 'warning: a handler is given for an axis of size one',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/sharding.py', locator: 'shard' },
  ],
  messages: { alone: '{kind}() is declared for one process.' },
  valid: [
    { caption: 'Two processes.', code: `parallel: fsdp2(),` },
    { caption: 'One, and nothing said.', code: `hardware: cpus({ processes: 1 }),` },
  ],
  invalid: [{ caption: 'One process.', code: `hardware: cpus({ processes: 1 }),\nparallel: fsdp2(),` }],
  check({ plan, declared, report }) {
    const { kind, world } = plan.parallel
    if (world > 1 || !declared(['parallel', 'kind'])) return
    const path = ['parallel']
    report({
      message: 'alone',
      at: ['parallel', 'kind'],
      path,
      on: 'key',
      data: { kind },
      related: [{ at: ['hardware'], path: ['hardware'], note: 'one process' }],
      fixes: [{ label: 'Remove `parallel`', kind: 'safe', edits: [{ kind: 'remove', path }] }],
    })
  },
})
