import { describe, expect, it } from 'vitest'
import type { Pipeline } from '../../sdk/plan/plan.ts'
import { resumeContract, resumeDifferences } from '../../sdk/plan/resume.ts'
import { bridge, planOf, small } from '../resolve/fixtures.ts'

const before = planOf(bridge).plan.pipeline

function after(change: (pipeline: Pipeline) => void): string[] {
  const now = structuredClone(before)
  change(now)
  return resumeDifferences(before, now).map(({ path, why }) => `${path}: ${why}`)
}

/** The values at a path of the contract, in a plan. */
function found(value: unknown, [step, ...rest]: readonly string[]): unknown[] {
  if (step === undefined) return [value]
  if (typeof value !== 'object' || value === null) return []
  const children: unknown[] =
    step === '*' ? Object.values(value) : Object.hasOwn(value, step) ? [(value as Record<string, unknown>)[step]] : []
  return children.flatMap((child) => found(child, rest))
}

describe('the resume contract', () => {
  it('names values that plans have', () => {
    const scheduled = planOf({ ...bridge, training: { ...bridge.training, schedule: { kind: 'cosine', warmup: 1 } } })
      .plan.pipeline
    for (const { path } of resumeContract()) expect(found(scheduled, path.split('.')), path).not.toEqual([])
  })

  it('allows more updates with what is a share of them, and what is not the training itself', () => {
    expect(
      after((now) => {
        now.training.updates = 100_000
        now.training.schedule.warmup = 3_000
        const [vision] = now.modules
        if (vision?.freeze[1] !== undefined) vision.freeze[1].from = 75_000
        now.checkpoint = { every: 500, keep: 1 }
        now.track = []
        now.launch = []
        now.exports = []
        now.loader.workers = 0
        now.hardware = { kind: 'cpus', processes: 4, nodes: 1 }
        now.parallel.world = 4
        now.training.microBatch = 64
        now.training.accumulation = 1
      }),
    ).toEqual([])
    expect(resumeDifferences(before, before)).toEqual([])
  })

  it('names what may not change', () => {
    expect(after((now) => void (now.training.updates = 10))).toEqual(['training.updates: may only grow'])
    expect(after((now) => void (now.training.globalBatch = 512))).toEqual(['training.globalBatch: may not change'])
    expect(after((now) => void (now.training.seed = 8))).toEqual(['training.seed: may not change'])
    expect(after((now) => void (now.training.schedule.warmup = 3_000))).toEqual([
      'training.schedule.warmup: may change only in proportion to training.updates',
    ])
    expect(
      after((now) => {
        const [vision] = now.modules
        if (vision !== undefined) Object.assign(vision, { lr: 1, dtype: 'fp32' })
      }),
    ).toEqual(['modules.vision.lr: may not change', 'modules.vision.dtype: may not change'])
    expect(after((now) => void now.modules.reverse())).toEqual(['modules.(order): may not change'])
    expect(after((now) => void (now.parallel = { kind: 'ddp', world: 8 }))).toEqual([
      'parallel.kind: may not change',
      'parallel.shard: may not change',
    ])
  })

  it('compares any two plans', () => {
    expect(resumeDifferences(before, planOf(small).plan.pipeline).length).toBeGreaterThan(20)
  })
})
