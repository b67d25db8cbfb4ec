/** What the editor says and offers, at every key of every option and every constructor: asked through the language service. */
import path from 'node:path'
import { ts } from 'ts-morph'
import { beforeAll, describe, expect, test } from 'vitest'

import { root } from './project.ts'
import { vocabulary, type Key, type Place } from './vocabulary.ts'

const { places, functions, project } = vocabulary()
const keys = places.flatMap((place) => place.keys.map((key) => ({ title: `${place.label}.${key.name}`, place, key })))
const file = path.join(root, 'test/types/hover.generated.ts')
const service = (): ts.LanguageService => project.getLanguageService().compilerObject

/** What a number counts or measures. */
const UNIT =
  /\b(updates?|samples?|episodes?|pixels?|bytes|actions?|steps?|layers?|blocks?|heads?|bins?|points?|tokens?|channels?|images?|frames?|cameras?|processes|GPUs|nodes|checkpoints?|dimensions?|embodiments?|stages?|joints?|norm|widths?|lengths?|side|share|weights?|rates?|rank|ratio|factor|multiple|probability|dropout|turns|seconds|seed|term|scale|offset|exponent|period|magnitude|groups|kernel|alpha|denominator|decay|convolutions)\b/i

/** Every place twice: with each of its keys, to hover over, and empty, to be completed; then each literal. */
const texts: string[] = [`import * as vla from 'vla-pipeline'\n`]
let length = texts[0]?.length ?? 0
const at = new Map<string, number>()

function put(label: string, before: string, inner: string, after: string): void {
  const offset = inner.indexOf('|')
  const line = `export const v${String(texts.length)} = ${before}`
  at.set(label, length + line.length + offset)
  const text = `${line}${inner.replace('|', '')}${after}\n`
  texts.push(text)
  length += text.length
}

for (const { place, key } of keys) {
  const name = `${place.before}${key.name}`
  put(`hover ${name}`, place.before, `|${key.name}: ${sample(key)}`, place.after)
  const literal = key.isList ? `['|']` : `'|'`
  if (key.literals.length > 0) put(`literal ${name}`, place.before, `${key.name}: ${literal}`, place.after)
}
for (const { before, after } of places) put(`keys ${before}`, before, '|', after)

/** Some value, as a user would write it: what is inferred from it must not hide the texts. */
function sample({ isNumber, isList, literals }: Key): string {
  const value = isNumber ? '1' : literals.length > 0 ? `'${literals[0] ?? ''}'` : isList ? `'a'` : 'undefined as never'
  return isList ? `[${value}]` : value
}

beforeAll(() => {
  project.createSourceFile(file, texts.join(''), { overwrite: true })
})

const position = (label: string): number => at.get(label) ?? 0

function hover(place: Place, key: Key): { readonly text: string; readonly tags: Readonly<Record<string, string>> } {
  const info = service().getQuickInfoAtPosition(file, position(`hover ${place.before}${key.name}`))
  return {
    text: ts.displayPartsToString(info?.documentation),
    tags: Object.fromEntries((info?.tags ?? []).map(({ name, text }) => [name, ts.displayPartsToString(text)])),
  }
}

function offered(label: string): string[] {
  const kinds: string[] = [ts.ScriptElementKind.memberVariableElement, ts.ScriptElementKind.string]
  const entries = service().getCompletionsAtPosition(file, position(label), {})?.entries ?? []
  return entries.filter(({ kind }) => kinds.includes(kind)).map(({ name }) => name)
}

test('the walk finds the vocabulary', () => {
  expect(functions.length).toBeGreaterThan(40)
  expect(places.map(({ label }) => label)).toEqual(
    expect.arrayContaining([
      'defineVLAPipeline',
      'defineVLAPipeline.training',
      'fsdp2',
      'gpus',
      'pi05.config',
      'until',
    ]),
  )
  expect(keys.length).toBeGreaterThan(250)
})

describe('hover', { timeout: 120_000 }, () => {
  test('every constructor says what it makes', () => {
    const bare = functions.filter((symbol) => ts.displayPartsToString(symbol.getDocumentationComment(undefined)) === '')
    expect(bare.map(({ name }) => name)).toEqual([])
  })

  test('every option says what it is, in which unit, and what holds where it is left out', () => {
    const told = keys.map(({ title, place, key }) => ({ title, key, ...hover(place, key) }))
    const of = (which: typeof told): string[] => which.map(({ title, text }) => `${title}: ${text}`)
    expect({
      textless: of(told.filter(({ text }) => text.length < 8)),
      withoutDefault: of(told.filter(({ key, tags }) => key.optional && (tags['default'] ?? '') === '')),
      withoutUnit: of(told.filter(({ key, text }) => key.isNumber && !UNIT.test(text))),
    }).toEqual({ textless: [], withoutDefault: [], withoutUnit: [] })
  })
})

describe('completions', { timeout: 120_000 }, () => {
  test('every key, wherever one may be written', () => {
    const missing = places.flatMap(({ label, before, keys: own }) => {
      const names = offered(`keys ${before}`)
      return own.filter(({ name }) => !names.includes(name)).map(({ name }) => `${label}.${name}`)
    })
    expect(missing).toEqual([])
  })

  test('every literal', () => {
    const missing = keys
      .filter(({ key }) => key.literals.length > 0)
      .flatMap(({ title, place, key }) => {
        const names = offered(`literal ${place.before}${key.name}`)
        return key.literals.filter((literal) => !names.includes(literal)).map((literal) => `${title}: ${literal}`)
      })
    expect(missing).toEqual([])
  })
})
