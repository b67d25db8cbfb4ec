import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { declareRules } from '../../sdk/declare/findings.ts'
import { lockRules } from '../../sdk/lock/findings.ts'
import { entries, entryById, rules } from '../../sdk/rules/index.ts'
import { explain } from '../../sdk/rules/page.ts'
import { judgeExample } from './chain.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = join(root, 'sdk/rules')
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
  basename(file).startsWith('vla'),
)

describe('the catalogue', () => {
  it('lists each rule file once, and each file is named after its rule', () => {
    expect(files.sort()).toEqual(
      rules.map((rule) => join(rule.area, `${rule.id.toLowerCase()}-${rule.name}.ts`)).sort(),
    )
  })
  it('has unique ids and names, in order', () => {
    expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length)
    expect(new Set(entries.map(({ name }) => name)).size).toBe(entries.length)
    expect(rules.map(({ id }) => id)).toEqual(rules.map(({ id }) => id).sort())
  })
  it('explains every id that declaration and lock report', () => {
    for (const id of [...Object.keys(declareRules), ...Object.keys(lockRules), 'VLA009'])
      expect(entryById(id), id).toBeDefined()
    for (const [id, { why }] of Object.entries(declareRules))
      expect(entryById(id)?.why.startsWith(why.slice(0, 40)), id).toBe(true)
  })
  it.each(entries.map((entry) => [entry.id, entry] as const))('%s is documented', (_, entry) => {
    expect(entry.id).toMatch(/^VLA\d{3}$/)
    expect(entry.name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/)
    for (const text of [entry.summary, entry.why, entry.fix]) {
      expect(text.length).toBeGreaterThan(15)
      expect(text).toMatch(/[.)\]'`]$/)
      expect(text).not.toContain('!')
    }
    expect(entry.sources.length).toBeGreaterThan(0)
    for (const source of entry.sources) {
      const isUrl = /^https:\/\//.test(source.at)
      expect(isUrl || /\.(py|ts|json)$/.test(source.at), source.at).toBe(true)
      if (!isUrl && !source.at.startsWith('schemas/')) expect(source.locator, source.at).toBeDefined()
      if (/^(sdk|templates|schemas)\//.test(source.at)) expect(existsSync(join(root, source.at)), source.at).toBe(true)
    }
    const reason = entry.suppress.allowed ? entry.suppress.when : entry.suppress.because
    expect(reason.length).toBeGreaterThan(15)
    expect(explain(entry.id)).toContain(entry.summary.slice(0, 30))
  })
  it.each(rules.map((rule) => [rule.id, rule] as const))(
    '%s: each of its messages is given by an example',
    (_, rule) => {
      const said = rule.invalid.flatMap((example) =>
        judgeExample(example)
          .findings.filter(({ id }) => id === rule.id)
          .map(({ message }) => message),
      )
      const missing = Object.entries(rule.messages).flatMap(([id, template]) => {
        const pattern = new RegExp(
          `^${template
            .split(/\{\w+\}/)
            .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
            .join('[\\s\\S]*')}$`,
        )
        return said.some((message) => pattern.test(message)) ? [] : [id]
      })
      expect(missing).toEqual(UNSHOWN[rule.id] ?? [])
    },
  )
  it('imports nothing but plan, catalog and finding', () => {
    for (const file of [
      ...files,
      'run.ts',
      'rule.ts',
      'index.ts',
      'page.ts',
      'facts.ts',
      'memory.ts',
      'statistics.ts',
      'setup.ts',
      'schedule.ts',
      'sequence.ts',
      'base.ts',
    ]) {
      const text = readFileSync(join(folder, file), 'utf8')
      for (const [, specifier = ''] of text.matchAll(/from '(\.[^']+)'/g)) {
        const target = join(dirname(join(folder, file)), specifier).slice(root.length)
        expect(target, file).toMatch(/^sdk\/(rules|plan|catalog|finding)\//)
      }
    }
  })
})

/** Messages that no declaration can give through the chain, since an earlier room refuses it; unit tests in run.test.ts show them. */
const UNSHOWN: Record<string, string[]> = {
  VLA091: ['withoutReason'],
}
