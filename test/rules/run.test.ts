import { describe, expect, it } from 'vitest'
import type { Plan } from '../../sdk/plan/plan.ts'
import { rules } from '../../sdk/rules/index.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { judge, judgeExample, lockOf, pipelineText } from './chain.ts'

function planOf(code: string, lock: Parameters<typeof lockOf>[0] = {}): Plan {
  const { plan } = judge(pipelineText(code), lockOf(lock))
  if (plan === undefined) throw new Error('no plan')
  return plan
}
const RATIO = `modules: { vision: { lr: 1e-6 }, action: { lr: 1e-3 } },`
const ids = (plan: Plan, options: Parameters<typeof runRules>[1] = {}): string[] =>
  runRules(plan, options).map(({ id }) => id)

describe('suppressions', () => {
  it('silence a rule that allows it', () => {
    expect(ids(planOf(RATIO))).toEqual(['VLA203'])
    expect(ids(planOf(`${RATIO}\nrules: { VLA203: off('new head') },`))).toEqual([])
  })
  it('do not silence one that does not', () => {
    expect(
      ids(
        planOf(
          `training: { updates: 1_000, globalBatch: 65, microBatch: 32, lr: 1e-3 },\nrules: { VLA201: off('x') },`,
        ),
      ),
    ).toEqual(['VLA091', 'VLA201'])
  })
  it('need a reason', () => {
    expect(
      runRules(planOf(RATIO), { suppressions: [{ rule: 'VLA203', reason: ' ' }] }).map(({ message }) => message),
    ).toContain('The rule VLA203 is switched off without a reason.')
  })
  it('are told when they are unused, at their key, with the fix', () => {
    const [unused] = runRules(planOf(`rules: { VLA203: off('new head') },`))
    expect(unused).toMatchObject({
      id: 'VLA090',
      path: ['rules', 'VLA203'],
      at: 'key',
      fixes: [{ kind: 'safe', edits: [{ kind: 'remove', path: ['rules', 'VLA203'] }] }],
    })
  })
  it('are not called unused where the rule could not look', () => {
    const plan = planOf(`rules: { VLA206: off('short on purpose') },`, { datasets: { 'data/reach': null } })
    expect(ids(plan)).toEqual(['VLA092'])
  })
})

describe('what is unknown', () => {
  it('is told once per missing lock entry, with the rules that needed it', () => {
    const findings = runRules(planOf('', { datasets: { 'data/reach': null } }))
    expect(findings.map(({ id, severity }) => [id, severity])).toEqual([['VLA092', 'info']])
    expect(findings[0]?.message).toMatch(
      /^Not looked at, since vla\.lock\.json has no entry for dataset 'data\/reach': VLA206, VLA212, VLA221, VLA502, .*VLA562\.$/,
    )
  })
  it('is not told where the lock has said it', () => {
    const plan = planOf('', { datasets: { 'data/reach': null } })
    const reported = [
      {
        id: 'VLA020',
        severity: 'info',
        message: '',
        why: '',
        fix: '',
        path: ['data', 'root'],
        at: 'value',
        related: [],
        fixes: [],
      },
    ] as const
    expect(ids(plan, { reported })).toEqual([])
  })
  it('and broken is silent: the finding that broke it stands alone', () => {
    const { findings } = judgeExample({
      code: `hardware: gpus('H100-SXM-80' as never, { perNode: 2 }),\nmodules: { language: { lr: -1, dtype: 'bf16' } },`,
    })
    expect(findings.map(({ id }) => id)).toEqual(['VLA003', 'VLA005'])
  })
  it('keeps no rule from looking at what is known', () => {
    const { findings } = judgeExample({
      code: `modules: { vision: { freeze: 'sometimes' as never }, projector: { recompute: 'full' } },`,
    })
    expect(findings.map(({ id }) => id)).toEqual(['VLA003', 'VLA301'])
  })
})

describe('findings', () => {
  it('come in the same order whatever the order of the rules', () => {
    const plan = planOf(
      `training: { updates: 1_000, globalBatch: 65, microBatch: 32, lr: 1e-3, schedule: cosine({ warmup: 5_000 }) },\n${RATIO}`,
    )
    expect(runRules(plan, { rules: [...rules].reverse() })).toEqual(runRules(plan))
    expect(ids(plan)).toEqual(['VLA201', 'VLA202', 'VLA203'])
  })
  it('work the numbers out', () => {
    const [finding] = runRules(planOf(`training: { updates: 1_000, globalBatch: 100, microBatch: 32, lr: 1e-3 },`))
    expect(finding?.message).toBe(
      'A global batch of 100 cannot be made of 2 processes with 32 samples each: one pass of all is 64.',
    )
    expect(finding?.fix).toBe('The nearest numbers that work: globalBatch: 64 or 128, or microBatch: 25.')
    expect(finding?.path).toEqual(['training', 'globalBatch'])
  })
  it('compare learning rates with a tolerance', () => {
    for (const [slow, fast] of [
      [2e-6, 1e-4],
      [1e-5, 5e-4],
      [3e-7, 1.5e-5],
    ] as const) {
      const code = (factor: number): string =>
        `modules: { vision: { lr: ${String(slow)} }, projector: { lr: ${String(fast * factor)} }, language: { lr: ${String(fast)} }, action: { lr: ${String(fast)} } },`
      expect(ids(planOf(code(1)))).toEqual([])
      expect(ids(planOf(code(1.001)))).toEqual(['VLA203'])
    }
  })
  it('know OpenVLA: 7.54 B parameters take 16 bytes each', () => {
    const [finding] = judgeExample({
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),\ncameras: { primary: 'observation.image' },\nhardware: gpus('RTX-4090', { perNode: 4 }),\ntraining: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    }).findings
    // (7,541,237,184 - 43,080,480) x 16 bytes and the dead ones as stored, over four GPUs.
    const dead = 43_080_480
    const expected = (7_541_237_184 - dead) * 16 + dead * 4
    expect(finding?.id).toBe('VLA601')
    expect(finding?.message).toBe(
      `Weights, gradients and optimizer state take ${(expected / 4 / 2 ** 30).toFixed(1)} GiB per GPU; RTX-4090 has 24.0 GiB.`,
    )
  })
})

it('all rules together take less than 50 ms', () => {
  const plan = planOf(
    `data: [${Array.from({ length: 20 }, (_, i) => `{ from: lerobotDataset({ root: 'data/reach', name: 'd${String(i)}' }), weight: 1 }`).join(', ')}],
evaluate: simulation({ env: 'metaworld', tasks: ['reach-v3'], imageSize: 64 }), export: [hf(), lerobot()], launch: [torchrun(), slurm({ partition: 'gpu', time: '24:00:00' })],`,
  )
  runRules(plan)
  const times = Array.from({ length: 11 }, () => {
    const start = performance.now()
    runRules(plan)
    return performance.now() - start
  }).sort((a, b) => a - b)
  expect(times[5]).toBeLessThan(50)
})
