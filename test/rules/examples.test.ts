import { describe, expect, it } from 'vitest'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { locate } from '../../sdk/locate/locate.ts'
import { entries } from '../../sdk/rules/index.ts'
import type { Example, RuleEntry } from '../../sdk/rules/rule.ts'
import { judge, judgeExample, lockOf, pipelineText } from './chain.ts'
import { typeErrors } from './typescript.ts'

const valid = entries.flatMap((rule) =>
  (rule.valid ?? []).map((example) => ({ title: `${rule.id} ${example.caption}`, rule, example })),
)
const invalid = entries.flatMap((rule) =>
  (rule.invalid ?? []).map((example) => ({ title: `${rule.id} ${example.caption}`, rule, example })),
)
const FILE = '/p/pipeline.ts'

it('the base pipeline has no findings', () => {
  expect(judge(pipelineText(''), lockOf(undefined)).findings).toEqual([])
})

describe('valid examples', () => {
  it.each(valid)('$title', ({ example }) => {
    expect(ids(judgeExample(example).findings)).toEqual([...(example.also ?? [])].sort())
  })
})

describe('invalid examples', () => {
  it.each(invalid)('$title', ({ rule, example }) => {
    const { findings } = judgeExample(example)
    expect(ids(findings)).toEqual([rule.id, ...(example.also ?? [])].sort())
    for (const finding of findings.filter(({ id }) => id === rule.id)) {
      expect(finding.message).not.toMatch(/\{(?!instruction\})|undefined|NaN|\[object/)
      expect(finding.message).toMatch(/\.$/)
      expect(finding.fix.length).toBeGreaterThan(10)
    }
  })
})

describe('positions', () => {
  it.each(invalid)('$title: found in the text', async ({ rule, example }) => {
    const { declaration, diagnostics } = await located(rule, example)
    for (const diagnostic of diagnostics) {
      expect(diagnostic.file).toBe('pipeline.ts')
      for (const related of diagnostic.related) expect(related.line).toBeGreaterThan(0)
      // What the user wrote is found exactly; what nobody wrote at the nearest place around it.
      if (isWritten(declaration, diagnostic.path)) expect(diagnostic.exact, JSON.stringify(diagnostic.path)).toBe(true)
    }
  })
})

/** One program for all of them: building it is what takes the time. */
it('valid examples are TypeScript without errors', { timeout: 120_000 }, () => {
  const errors = typeErrors(new Map(valid.map(({ title, example }) => [title, pipelineText(example.code)])))
  expect([...errors].filter(([, found]) => found.length > 0)).toEqual([])
})

async function located(
  rule: RuleEntry,
  example: Example,
): Promise<{ declaration: unknown; diagnostics: Diagnostic[] }> {
  const { text, declaration, findings } = judgeExample(example)
  const own = findings.filter(({ id }) => id === rule.id)
  const diagnostics = await locate(own, {
    file: FILE,
    declaration,
    root: '/p',
    read: (path) => (path === FILE ? text : undefined),
  })
  return { declaration, diagnostics }
}

function ids(findings: readonly { readonly id: string }[]): string[] {
  return [...new Set(findings.map(({ id }) => id))].sort()
}

function isWritten(declaration: unknown, path: readonly (string | number)[]): boolean {
  let value = declaration
  for (const segment of path) {
    if (typeof value !== 'object' || value === null || !(segment in value)) return false
    value = (value as Record<string | number, unknown>)[segment]
  }
  return true
}
