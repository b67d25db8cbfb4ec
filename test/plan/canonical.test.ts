import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalFile, canonicalHash, canonicalJson } from '../../sdk/plan/canonical.ts'

/** The same value with the keys of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, child]) => [key, reordered(child)]),
  )
}

describe('canonicalJson', () => {
  it('sorts keys by code unit and writes numbers in their shortest form', () => {
    expect(canonicalJson({ b: 1.0, a: [1e-7, -0, 1e21, 0.1], é: null, Z: true, skipped: undefined })).toBe(
      '{"Z":true,"a":[1e-7,0,1e+21,0.1],"b":1,"é":null}',
    )
  })

  it('refuses what JSON cannot hold', () => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, () => 1, Symbol('x'), 1n, undefined]) {
      expect(() => canonicalJson({ value: [value] })).toThrow(TypeError)
    }
  })

  it('does not depend on the order of keys, and neither does the hash', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(canonicalJson(reordered(value))).toBe(canonicalJson(value))
        expect(canonicalFile(reordered(value))).toBe(canonicalFile(value))
        expect(canonicalHash(reordered(value))).toBe(canonicalHash(value))
      }),
    )
  })

  it('keeps the value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const plain: unknown = JSON.parse(JSON.stringify(value))
        expect(JSON.parse(canonicalJson(value))).toEqual(plain)
        expect(JSON.parse(canonicalFile(value))).toEqual(plain)
      }),
    )
  })

  it('tells different values apart', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        fc.pre(JSON.stringify(reordered(a)) !== JSON.stringify(reordered(b)) && canonicalJson(a) !== canonicalJson(b))
        expect(canonicalHash(a)).not.toBe(canonicalHash(b))
      }),
    )
  })

  it('has the known hash of a known value', () => {
    // printf '{"a":[1,2],"b":"x"}' | sha256sum
    expect(canonicalHash({ b: 'x', a: [1, 2] })).toBe(
      'd0f56dda38d34376527524ddd98f7ec117d5cbfb240f86e11bfb9d2d01a717d9',
    )
  })
})

describe('canonicalFile', () => {
  it('puts on one line what fits and ends with a newline', () => {
    expect(canonicalFile({ b: [1, 2], a: { y: null, x: {} } })).toBe('{ "a": { "x": {}, "y": null }, "b": [1, 2] }\n')
    const long = { list: Array.from({ length: 60 }, (_, index) => index), short: [1] }
    const lines = canonicalFile(long).split('\n')
    expect(lines[0]).toBe('{')
    expect(lines[1]).toBe('  "list": [')
    expect(lines[2]).toBe('    0,')
    expect(lines.at(-3)).toBe('  "short": [1]')
    expect(lines.at(-1)).toBe('')
  })

  it('never exceeds its width where a value can be broken', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer(), { maxLength: 40 })), (value) => {
        for (const line of canonicalFile(value).split('\n')) expect(line.length).toBeLessThanOrEqual(120)
      }),
    )
  })
})
