import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalFile, canonicalHash } from '../../sdk/plan/canonical.ts'
import { brokenNodes, guardPlan, UnknownRead } from '../../sdk/plan/guard.ts'
import { declarationPath, fromPointer, noteAt, toPointer, valueAt } from '../../sdk/plan/notes.ts'
import type { Plan } from '../../sdk/plan/plan.ts'
import { planSchemaFile } from '../../sdk/plan/schema-file.ts'
import { bridge, planOf, small } from '../resolve/fixtures.ts'

describe('the hash', () => {
  it('is the sha256 of the canonical values', () => {
    const { plan } = planOf(bridge)
    expect(plan.hash).toBe(canonicalHash(plan.pipeline))
    expect(plan.hash).toMatch(/^[0-9a-f]{64}$/)
    expect(planOf(small).plan.hash).not.toBe(plan.hash)
  })
})

describe('the published schema', () => {
  const published = readFileSync(new URL('../../schemas/plan.schema.json', import.meta.url), 'utf8')

  it('is up to date', () => {
    expect(published, 'run npx tsx scripts/write-schemas.ts').toBe(planSchemaFile())
  })

  it('accepts plans as they are written, and nothing else', () => {
    const validate = new Ajv2020({ strict: false }).compile(JSON.parse(published) as object)
    for (const declaration of [bridge, small]) {
      expect(validate(JSON.parse(canonicalFile(planOf(declaration).plan)))).toBe(true)
      expect(
        validate(JSON.parse(canonicalFile(planOf(declaration, { schemaVersion: 1, datasets: {}, weights: {} }).plan))),
      ).toBe(true)
    }
    const { plan } = planOf(small)
    expect(validate({ ...plan, schemaVersion: 2 })).toBe(false)
    expect(validate({ ...plan, pipeline: { ...plan.pipeline, extra: 1 } })).toBe(false)
  })
})

describe('pointers and notes', () => {
  it('are inverse to each other', () => {
    const step = fc.oneof(
      fc.nat(),
      fc.string().filter((text) => !/^(0|[1-9]\d*)$/.test(text)),
    )
    fc.assert(
      fc.property(fc.array(step), (path) => {
        expect(fromPointer(toPointer(path))).toEqual(path)
      }),
    )
    expect(toPointer(['a/b', 'c~d', 0])).toBe('/a~1b/c~0d/0')
  })

  it('lead from a value to the place where the user said it', () => {
    const { plan } = planOf(bridge)
    expect(declarationPath(plan, '/modules/0/lr')).toEqual(['modules', 'vision', 'lr'])
    expect(declarationPath(plan, ['modules', 0, 'freeze', 1, 'from'])).toEqual(['modules', 'vision', 'freeze'])
    expect(declarationPath(plan, '/datasets/0/statistics/action/q99/3')).toEqual(['data', 'root'])
    expect(declarationPath(plan, '/nothing')).toEqual([])
    expect(noteAt(plan, '/training/accumulation')?.reason).toBe(
      'globalBatch / (microBatch x processes) = 256 / (16 x 8).',
    )
    expect(valueAt(plan.pipeline, '/modules/0/freeze/1/from')).toBe(37_500)
    expect(valueAt(plan.pipeline, '/modules/9/name')).toBeUndefined()
    expect(valueAt(plan.pipeline, ['modules', 'length', 'x'])).toBeUndefined()
  })
})

describe('guardPlan', () => {
  function broken(): Plan {
    return planOf({ ...small, loader: { workers: -1 }, modules: { vision: { dtype: 'fp7' } } }).plan
  }

  it('stops whoever uses a broken node, and nobody else', () => {
    const guarded = guardPlan(broken())
    expect(guarded.pipeline.training.updates).toBe(600)
    expect(guarded.pipeline.modules[0]?.name).toBe('vision')
    expect(guarded.pipeline.modules.map(({ name }) => name)).toEqual(['vision', 'projector', 'language', 'action'])
    expect(() => guarded.pipeline.loader.workers).toThrow(UnknownRead)
    expect(() => guarded.pipeline.modules.map(({ dtype }) => dtype)).toThrow('VLA003')
  })

  it('hands out what the schema lets be unknown', () => {
    const plan = planOf({ ...small, loader: { workers: -1 } }, { schemaVersion: 1, datasets: {}, weights: {} }).plan
    expect(guardPlan(plan).pipeline.model.actionDim).toEqual(plan.pipeline.model.actionDim)
    expect([...brokenNodes(plan.pipeline).values()]).toEqual([['loader', 'workers']])
  })

  it('leaves a sound plan alone', () => {
    const { plan } = planOf(bridge)
    expect(guardPlan(plan)).toBe(plan)
    expect(brokenNodes(plan.pipeline).size).toBe(0)
  })
})
