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
  it('a camera of a policy is called toString', () => {
    const code = `model: xvla({ cameras: ['toString'] }), cameras: { toString: 'observation.image' }`
    expect(() => found(code)).not.toThrow()
  })
  it.each(['hasOwnProperty', 'toString'])('a camera of a policy reads %s', (feature) => {
    const code = `model: act({ cameras: ['front'], chunk: 8 }), cameras: { front: '${feature}' }`
    expect(found(code).map(({ id }) => id)).toContain('VLA502')
  })
})

describe('what is no JSON in a list of a config', () => {
  it('is one finding', () => {
    const config = `{ resize_imgs_with_padding: [new Set() as never, 512] }`
    expect(
      said(`model: smolvla({ cameras: ['front'], config: ${config} })`).filter((text) => /^VLA(?:00|530)/.test(text)),
    ).toEqual(['VLA003 model.config.resize_imgs_with_padding[0] is an object, which is not plain data.'])
  })
})

describe('numbers', () => {
  it('the shares of two weights whose sum is none', () => {
    const of = (weight: string): string =>
      `{ from: lerobotDataset({ root: 'data/reach', name: 'w${weight.length}' }), weight: ${weight} }`
    const [twice] = said(`data: [${of('3')}, ${of('1e308')}, ${of('1.0e308')}]`).filter((text) =>
      text.startsWith('VLA569'),
    )
    expect(twice).not.toContain('Infinity')
  })
  it('two rates that are too far apart to divide', () => {
    const modules = `modules: { vision: { lr: 1e-320 }, projector: { lr: 1 }, language: { lr: 1 }, action: { lr: 1 } }`
    expect(said(modules).filter((text) => text.startsWith('VLA203'))).toEqual([
      "VLA203 The learning rate of 'projector' (1e+0) is over a million times that of 'vision' (1e-320).",
    ])
  })
  it('a statistic that is not finite is no bound of the actions', () => {
    const code = `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: tokens(), promptTokens: 96 }), normalize: { action: 'identity' }`
    const lock = lockOf({ datasets: { 'data/reach': { statistics: { action: { max: [null, 1, 1, 1] } } } } })
    expect(judge(pipelineText(code), lock).findings.map(({ id }) => id)).not.toContain('VLA515')
  })
  it('-0 is 0', () => {
    const declaration = evaluate(pipelineText(training('lr: 1e-3, optimizer: adamw({ betas: [-0, 0.999] })')))
    const { declaration: read } = parseDeclaration(declaration)
    expect(Object.is(read?.training.optimizer?.betas?.[0], 0)).toBe(true)
  })
  const llama = `causalLM({ config: { model_type: 'llama', hidden_size: 128, num_attention_heads: 4, num_hidden_layers: 1_000_000_000 } })`
  const own = (language: string, projector: string, action: string): string =>
    `model: composed({ cameras: ['front'], vision: tower, projector: ${projector}, language: ${language}, action: ${action} })`
  it.each([
    own(llama, 'keyPoints', 'regression({ chunk: 8 })'),
    own('trunk', 'keyPoints', 'regression({ chunk: 8, blocks: 7_000_000_000 })'),
    own('trunk', 'keyPoints', 'flowMatching({ chunk: 8, hidden: 64, layers: 7_000_000_000 })'),
    own('trunk', 'mlp({ layers: 7_000_000_000 })', 'regression({ chunk: 8 })'),
    `model: act({ cameras: ['front'], chunk: 8, config: { n_encoder_layers: 7_000_000_000 } })`,
  ])('a milliard layers are not listed: %s', (model) => {
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
