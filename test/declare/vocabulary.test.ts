import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

import { suggest } from '../../sdk/declare/suggest.ts'
import * as vla from '../../sdk/index.ts'
import { smallest } from './fixtures.ts'

test('a pipeline is marked with a registered symbol, and otherwise plain data', () => {
  const pipeline = vla.defineVLAPipeline(smallest)
  expect(Reflect.get(pipeline, Symbol.for('vla.pipeline'))).toBe(1)
  expect(JSON.parse(JSON.stringify(pipeline))).toEqual(smallest)
})

test('constructors return data with their kind', () => {
  expect(vla.causalLM('a', { revision: 'b' })).toEqual({ kind: 'causalLM', source: 'a', revision: 'b' })
  expect(vla.causalLM({ config: { model_type: 'llama' }, tokenizer: 'bytes' })).toEqual({
    kind: 'causalLM',
    config: { model_type: 'llama' },
    tokenizer: 'bytes',
  })
  expect(vla.until('75%', { thenTrain: vla.lastLayers(6) })).toEqual({
    kind: 'until',
    when: '75%',
    thenTrain: { kind: 'lastLayers', count: 6 },
  })
  expect(vla.gpus('L4', { perNode: 2 })).toEqual({ kind: 'gpus', gpu: 'L4', perNode: 2 })
  expect(vla.fsdp2()).toEqual({ kind: 'fsdp2' })
  expect(vla.gib(128)).toBe(137_438_953_472)
})

/** Modules that a file imports at run time, and the files behind the relative ones. */
function imports(file: string, seen: Map<string, string[]>): Map<string, string[]> {
  if (seen.has(file)) return seen
  const text = readFileSync(file, 'utf8')
  const statements = [...text.matchAll(/^(?:import|export) (?!type\b)(?:[^']*? from )?'([^']+)'/gm)].map(
    (match) => match[1] ?? '',
  )
  seen.set(file, statements)
  for (const name of statements.filter((statement) => statement.startsWith('.')))
    imports(fileURLToPath(new URL(name, `file://${file}`)), seen)
  return seen
}

test('importing the SDK loads zod and nothing else', () => {
  const graph = imports(fileURLToPath(new URL('../../sdk/index.ts', import.meta.url)), new Map())
  expect(graph.size).toBeGreaterThan(15)
  const packages = [...graph.values()].flat().filter((name) => !name.startsWith('.'))
  expect([...new Set(packages)]).toEqual(['zod'])
})

describe('suggestions', () => {
  const names = ['vision', 'projector', 'language', 'action']
  test.each([
    ['vison', 'vision'],
    ['Vision', 'vision'],
    ['langauge', 'language'],
    ['projecter', 'projector'],
    ['heads', undefined],
    ['', undefined],
  ])('%s -> %s', (written, meant) => {
    expect(suggest(written, names)).toBe(meant)
  })

  test('none where two are equally close', () => {
    expect(suggest('at', ['cat', 'bat'])).toBeUndefined()
    expect(suggest('x', [])).toBeUndefined()
  })
})
