/** What random declarations have found, each with the right answer. */
import { describe, expect, it } from 'vitest'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { Finding } from '../../sdk/finding/finding.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { evaluate, judge, lockOf, pipelineText } from '../rules/chain.ts'

const found = (code: string): Finding[] => judge(pipelineText(code), lockOf(undefined)).findings
const said = (code: string): string[] => found(code).map(({ id, message }) => `${id} ${message}`)

const training = (more: string): string => `training: { updates: 1_000, globalBatch: 64, microBatch: 32, ${more} }`

describe('a node whose kind cannot be read', () => {
  it.each(['[cosine()]', `'cosine'`, '7'])('schedule: %s: nothing else is said of what is in it', (schedule) => {
    expect(found(training(`lr: 1e-3, schedule: ${schedule} as never`)).map(({ id }) => id)).toEqual(['VLA003'])
  })
})

describe('a list of rules that cannot be read', () => {
  it('switches nothing off', () => {
    expect(found('rules: 1 as never').map(({ id }) => id)).toEqual(['VLA003'])
  })
})

describe('names that every object has', () => {
  it.each(['__proto__', 'constructor', 'toString'])('kind: %s is a text', (kind) => {
    expect(said(`hardware: { kind: '${kind}' } as never`)).toEqual([`VLA003 hardware is ${kind}(...).`])
  })
  it.each(['hasOwnProperty', 'toString'])('a camera of a policy reads %s', (feature) => {
    const code = `model: act({ cameras: ['front'], chunk: 8 }), cameras: { front: '${feature}' }`
    expect(found(code).map(({ id }) => id)).toContain('VLA502')
  })
})

describe('numbers', () => {
  it('-0 is 0', () => {
    const declaration = evaluate(pipelineText(training('lr: 1e-3, optimizer: adamw({ betas: [-0, 0.999] })')))
    const { declaration: read } = parseDeclaration(declaration)
    expect(Object.is(read?.training.optimizer?.betas?.[0], 0)).toBe(true)
  })
  it('a hundred thousand layers are not listed', () => {
    const language = `causalLM({ config: { model_type: 'llama', hidden_size: 128, num_attention_heads: 4, num_hidden_layers: 1_000_000_000 } })`
    const model = `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: ${language}, action: regression({ chunk: 8 }) })`
    const before = process.cpuUsage()
    found(model)
    expect(process.cpuUsage(before).user).toBeLessThan(2e6)
  })
})

describe('fixes and remedies', () => {
  it('VLA214 takes a rate away only where the module has one', () => {
    const edits = found(`modules: {}, ${training('lr: 0')}`).flatMap(({ fixes }) => fixes.flatMap((fix) => fix.edits))
    expect(edits.length).toBeGreaterThan(0)
    expect(edits.filter(({ kind }) => kind === 'remove')).toEqual([])
  })
})

describe('pixel statistics of a lock', () => {
  it('of one channel are none of colours', () => {
    const declaration = evaluate(
      pipelineText(
        `model: composed({ cameras: ['front'], vision: timmVision('vit_tiny_patch16_224', { weights: './tower' }), projector: linear(), language: trunk, action: regression({ chunk: 8 }) })`,
      ),
    )
    const parsed = parseDeclaration(declaration)
    const base = lockOf(undefined)
    const image = { mean: [0.5], std: [0.5] }
    const tower = {
      revision: null,
      fingerprint: '0'.repeat(64),
      config: null,
      image,
      tokenizer: [],
      tensors: {},
      statistics: {},
    }
    const { plan } = resolve(parsed.declaration, { ...base, weights: { tower } }, parsed)
    if (plan === undefined || plan.pipeline.model.family === 'lerobot') throw new Error('no plan')
    expect(plan.pipeline.model.vision.towers.map(({ mean }) => mean.length)).toEqual([3])
    expect(runRules(plan).map(({ id }) => id)).not.toContain('VLA003')
  })
})
