import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { applyFixes } from '../../sdk/locate/apply.ts'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { locate } from '../../sdk/locate/locate.ts'
import { rules } from '../../sdk/rules/index.ts'
import type { Example, Rule } from '../../sdk/rules/rule.ts'
import { judge, judgeExample, lockOf, pipelineText } from './chain.ts'

const valid = rules.flatMap((rule) =>
  rule.valid.map((example) => ({ title: `${rule.id} ${example.caption}`, rule, example })),
)
const invalid = rules.flatMap((rule) =>
  rule.invalid.map((example) => ({ title: `${rule.id} ${example.caption}`, rule, example })),
)
const FILE = '/p/pipeline.ts'
const root = fileURLToPath(new URL('../../', import.meta.url))
/** What the safe fixes have made of the invalid examples. */
const fixed = new Map<string, string>()

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

describe('safe fixes', () => {
  const fixable = invalid.filter(({ rule, example }) =>
    judgeExample(example).findings.some(({ id, fixes }) => id === rule.id && fixes.some(({ kind }) => kind === 'safe')),
  )
  it('there are some', () => {
    expect(fixable.length).toBeGreaterThan(10)
  })
  it.each(fixable)('$title: the finding vanishes', async ({ rule, example }) => {
    const { text, diagnostics } = await located(rule, example)
    const fixes = diagnostics.flatMap((diagnostic) => diagnostic.fixes.find(({ kind }) => kind === 'safe') ?? [])
    const { files, skipped } = applyFixes(fixes, () => text)
    expect(skipped).toEqual([])
    const after = files.get('pipeline.ts') ?? ''
    fixed.set(`${rule.id}: ${example.caption}`, after)
    expect(ids(judge(after, lockOf(example.lock)).findings)).not.toContain(rule.id)
  })
})

/** One program for all of them: building it is what takes the time. Runs last, on what the safe fixes have left behind. */
it('valid examples and fixed ones are TypeScript without errors', { timeout: 120_000 }, () => {
  const texts = new Map<string, string>()
  for (const [index, { example }] of valid.entries())
    texts.set(`${root}valid-${String(index)}.ts`, pipelineText(example.code))
  for (const [index, text] of [...fixed.values()].entries()) texts.set(`${root}fixed-${String(index)}.ts`, text)
  expect(fixed.size).toBeGreaterThan(10)
  expect(typeErrors(texts)).toEqual([])
})

async function located(
  rule: Rule,
  example: Example,
): Promise<{ text: string; declaration: unknown; diagnostics: Diagnostic[] }> {
  const { text, declaration, findings } = judgeExample(example)
  const own = findings.filter(({ id }) => id === rule.id)
  const diagnostics = await locate(own, {
    file: FILE,
    declaration,
    root: '/p',
    read: (path) => (path === FILE ? text : undefined),
  })
  return { text, declaration, diagnostics }
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

function typeErrors(files: ReadonlyMap<string, string>): string[] {
  const config = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path))
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const read = host.readFile.bind(host)
  const exists = host.fileExists.bind(host)
  const source = host.getSourceFile.bind(host)
  host.readFile = (path) => files.get(path) ?? read(path)
  host.fileExists = (path) => files.has(path) || exists(path)
  host.getSourceFile = (path, target) => {
    const text = files.get(path)
    return text === undefined ? source(path, target) : ts.createSourceFile(path, text, target)
  }
  const program = ts.createProgram([...files.keys()], options, host)
  return [...files.keys()].flatMap((path) => {
    const file = program.getSourceFile(path)
    if (file === undefined) throw new Error(`no ${path}`)
    const all = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
    return all.map(
      ({ messageText, start }) =>
        `${ts.flattenDiagnosticMessageText(messageText, '\n')} at: ${file.text.slice(start, (start ?? 0) + 60)}`,
    )
  })
}
