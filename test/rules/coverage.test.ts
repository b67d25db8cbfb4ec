import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { entryById } from '../../sdk/rules/index.ts'
import { judgeExample } from './chain.ts'
import { peerRows, reportRows } from './reports/table.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const reports = reportRows()
const peers = peerRows()
const rows = [...reports, ...peers]
const texts = new Map<string, string>()

describe('a report that is caught', () => {
  const declared = reports.flatMap((row) => ('wrong' in row ? [row] : []))
  it('is one of many', () => {
    expect(declared.length).toBeGreaterThan(15)
  })
  it.each(declared.map((row) => [row.id, row] as const))('%s: its rule finds it, and no other error does', (_, row) => {
    const errors = judgeExample(row.wrong).findings.filter(
      ({ id, severity }) => severity === 'error' || id === row.rule,
    )
    expect([...new Set(errors.map(({ id }) => id))]).toEqual([row.rule])
  })
  it.each(declared.map((row) => [row.id, row] as const))('%s: put right, it is silent', (_, row) => {
    expect(judgeExample(row.right).findings.filter(({ severity }) => severity !== 'info')).toEqual([])
  })
})

describe('the coverage table', () => {
  it('has each row once', () => {
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
  })
  it('names rules that exist', () => {
    const absent = rows.flatMap((row) => ('rule' in row && entryById(row.rule) === undefined ? [row] : []))
    expect(absent.map(({ id, rule }) => `${id}: ${rule}`)).toEqual([])
  })
  it('names tests that exist', () => {
    const absent = rows.flatMap((row) =>
      'shown' in row && !names(row.shown) ? [`${row.id}: ${row.shown.file}: ${row.shown.name}`] : [],
    )
    expect(absent).toEqual([])
  })
  it('says something about most reports whose fields a declaration has', () => {
    const inReach = reports.filter(({ state }) => state !== 'waits')
    const settled = inReach.filter(({ state }) => state === 'caught' || state === 'impossible')
    expect(settled.length / inReach.length).toBeGreaterThan(0.85)
  })
})

/** Whether the file has a test of this name: a function in Python, a part of a title in TypeScript. */
function names({ file, name }: { readonly file: string; readonly name: string }): boolean {
  if (!existsSync(root + file)) return false
  const text = texts.get(file) ?? readFileSync(root + file, 'utf8')
  texts.set(file, text)
  return file.endsWith('.py') ? text.includes(`def ${name}(`) : text.includes(name)
}
