import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { rulePages } from '../../scripts/rule-pages.ts'
import { explain } from '../../sdk/rules/page.ts'

const folder = fileURLToPath(new URL('../../docs/rules/', import.meta.url))

describe('docs/rules', () => {
  it('is what the rules say now (else: npm run rules)', async () => {
    const pages = await rulePages()
    expect(readdirSync(folder).sort()).toEqual([...pages.keys()].sort())
    for (const [file, text] of pages) expect(readFileSync(folder + file, 'utf8'), file).toBe(text)
  })
})

describe('explain', () => {
  it('prints a page that fits its width', () => {
    const text = explain('VLA201', 80) ?? ''
    expect(text.startsWith('VLA201 batch-not-divisible\n')).toBe(true)
    for (const heading of ['WHY', 'HOW TO FIX', 'INVALID', 'VALID', 'WHEN TO SUPPRESS', 'SOURCES'])
      expect(text).toContain(`\n${heading}\n`)
    for (const line of text.split('\n').filter((line) => !line.startsWith('    ')))
      expect(line.length).toBeLessThanOrEqual(80)
  })
  it('knows no other ids', () => {
    expect(explain('VLA999')).toBeUndefined()
  })
})
