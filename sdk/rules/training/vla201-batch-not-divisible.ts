import { defineRule } from '../rule.ts'

export const batchNotDivisible = defineRule({
  id: 'VLA201',
  name: 'batch-not-divisible',
  area: 'training',
  severity: 'error',
  since: '0.1.0',
  summary: 'The global batch is a whole multiple of micro-batch times processes.',
  why: 'Accumulation is derived from the three; a remainder would give some processes fewer samples, and collectives would wait forever.',
  fix: 'Change one of the three numbers.',
  suppress: { allowed: false, because: 'The failure is certain: no accumulation makes up that batch.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/training/strategies/base_strategy.py',
      locator: 'global_batch_size % per_device_batch_size assertion',
    },
    { title: 'DeepSpeed', at: 'deepspeed/runtime/config.py', locator: '_batch_assertion' },
  ],
  messages: {
    remainder:
      'A global batch of {global} cannot be made of {world} processes with {micro} samples each: one pass of all is {pass}.',
    small:
      'A global batch of {global} is smaller than one pass of {world} processes with {micro} samples each ({pass}).',
  },
  valid: [
    { caption: '64 = 16 x 2 x 2.', code: `training: { updates: 1_000, globalBatch: 64, microBatch: 16, lr: 1e-3 },` },
    { caption: '64 = 32 x 2.', code: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3 },` },
  ],
  invalid: [
    {
      caption: '100 is no multiple of 2 x 32.',
      code: `training: { updates: 1_000, globalBatch: 100, microBatch: 32, lr: 1e-3 },`,
    },
    {
      caption: '32 is less than 2 x 32.',
      code: `training: { updates: 1_000, globalBatch: 32, microBatch: 32, lr: 1e-3 },`,
    },
  ],
  check({ plan, path, report }) {
    const { globalBatch, microBatch } = plan.training
    const { world } = plan.parallel
    const pass = microBatch * world
    if (globalBatch % pass === 0) return
    const below = Math.floor(globalBatch / pass) * pass
    const legal = below === 0 ? [pass] : [below, below + pass]
    const micro = nearestDivisor(globalBatch / world, microBatch)
    const options = [
      `globalBatch: ${legal.join(' or ')}`,
      ...(micro === undefined ? [] : [`microBatch: ${String(micro)}`]),
    ]
    const nearest = legal.reduce((best, value) =>
      Math.abs(value - globalBatch) < Math.abs(best - globalBatch) ? value : best,
    )
    report({
      message: globalBatch < pass ? 'small' : 'remainder',
      at: ['training', 'globalBatch'],
      data: { global: globalBatch, world, micro: microBatch, pass },
      fix: `The nearest numbers that work: ${options.join(', or ')}.`,
      related: [
        { at: ['training', 'microBatch'], note: `${String(microBatch)} samples per process and pass` },
        { at: ['hardware'], path: ['hardware'], note: `${String(world)} processes` },
      ],
      fixes: [
        {
          label: `Set globalBatch to ${String(nearest)}`,
          kind: 'suggestion',
          edits: [{ kind: 'set', path: path(['training', 'globalBatch']), value: nearest }],
        },
        ...(micro === undefined
          ? []
          : [
              {
                label: `Set microBatch to ${String(micro)}`,
                kind: 'suggestion' as const,
                edits: [{ kind: 'set' as const, path: path(['training', 'microBatch']), value: micro }],
              },
            ]),
      ],
    })
  },
})

/** The largest divisor of `total` that is at most `wanted`; undefined where `total` is no whole number. */
function nearestDivisor(total: number, wanted: number): number | undefined {
  if (!Number.isInteger(total)) return undefined
  for (let divisor = Math.min(wanted, total); divisor > 0; divisor -= 1) if (total % divisor === 0) return divisor
  return undefined
}
