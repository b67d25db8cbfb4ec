/** Every fix and every suggestion of every invalid example, applied to a text that has a comment on each of its lines. */
import { describe, expect, it } from 'vitest'
import type { DeclarationEdit, Finding } from '../../sdk/finding/finding.ts'
import { applyFixes } from '../../sdk/locate/apply.ts'
import type { Diagnostic, LocatedFix } from '../../sdk/locate/diagnostic.ts'
import { locate } from '../../sdk/locate/locate.ts'
import { entries } from '../../sdk/rules/index.ts'
import type { Example } from '../../sdk/rules/rule.ts'
import { judge, judgeExample, lockOf } from './chain.ts'
import { typeErrors } from './typescript.ts'

const FILE = '/p/pipeline.ts'

const fixable = entries.flatMap((rule) =>
  (rule.invalid ?? [])
    .filter((example) => judgeExample(example).findings.some(({ id, fixes }) => id === rule.id && fixes.length > 0))
    .map((example) => ({ title: `${rule.id} ${example.caption}`, id: rule.id, example })),
)

/** Title -> text, before and after its fixes. */
const texts = { before: new Map<string, string>(), after: new Map<string, string>() }

describe('fixes and suggestions', () => {
  it('are many', () => {
    expect(fixable.length).toBeGreaterThan(40)
  })

  it.each(fixable)('$title', async ({ title, id, example }) => {
    const { text, declaration, findings, diagnostics } = await commented(id, example)
    const known = new Set(findings.map((finding) => finding.id))
    texts.before.set(title, text)
    for (const [index, diagnostic] of diagnostics.entries()) {
      for (const fix of diagnostic.fixes) {
        const { textEdits } = fix
        // A place that is written out can be edited; of a computed one only a person knows how.
        expect(textEdits, fix.label).not.toBeNull()
        const after = applied([fix], text)
        texts.after.set(`${title}, ${String(index)}: ${fix.label}`, after)

        // Its finding vanishes, and gives way to no other.
        const left = judge(after, lockOf(example.lock))
        expect(count(left.findings, diagnostic), `${fix.label}\n${after}`).toBeLessThan(count(findings, diagnostic))
        expect([...known, ...left.findings.map((finding) => finding.id)].filter((each) => !known.has(each))).toEqual([])
        // What changes is what the fix says, and nothing else.
        expect(left.declaration, fix.label).toEqual(edited(declaration, fix.edits))
        // A comment goes only with the whole line that it speaks of.
        for (const { start, end, note } of notes(text)) {
          const isCut = (textEdits ?? []).some((edit) => edit.start <= start && edit.end >= end)
          expect(after.includes(note), `${fix.label}: ${note}`).toBe(!isCut)
        }
      }
    }
    // The safe ones of all findings together: what --fix does.
    const safe = diagnostics.flatMap(({ fixes }) => fixes.find(({ kind }) => kind === 'safe') ?? [])
    if (safe.length < 2) return
    const together = judge(applied(safe, text), lockOf(example.lock)).findings
    for (const diagnostic of diagnostics.filter(({ fixes }) => fixes.some(({ kind }) => kind === 'safe')))
      expect(count(together, diagnostic)).toBeLessThan(count(findings, diagnostic))
  })

  /** One program for all of them: building it is what takes the time. Runs last, on what the fixes have left behind. */
  it('leave TypeScript without an error that was not there before', { timeout: 120_000 }, () => {
    expect(texts.after.size).toBeGreaterThan(40)
    const errors = typeErrors(
      new Map([
        ...[...texts.before].map(([title, text]) => [`before ${title}`, text] as const),
        ...[...texts.after].map(([title, text]) => [`after ${title}`, text] as const),
      ]),
    )
    const fresh = [...texts.after.keys()].flatMap((name) => {
      const [title] = [...texts.before.keys()].filter((each) => name.startsWith(`${each}, `))
      const known = (errors.get(`before ${title ?? ''}`) ?? []).map(withoutPlace)
      return (errors.get(`after ${name}`) ?? [])
        .filter((error) => !known.includes(withoutPlace(error)))
        .map((error) => `${name}: ${error}`)
    })
    expect(fresh).toEqual([])
  })
})

/** The text after a place moves with the edit. */
function withoutPlace(error: string): string {
  return error.replace(/ at: [^]*$/, '')
}

/** The example with a comment on each line, judged and located; the findings of its rule alone. */
async function commented(
  id: string,
  example: Example,
): Promise<{ text: string; declaration: unknown; findings: readonly Finding[]; diagnostics: Diagnostic[] }> {
  const text = judgeExample(example)
    .text.split('\n')
    .map((line, index) => (line === '' ? line : `${line} // note ${String(index)}.`))
    .join('\n')
  const { declaration, findings } = judge(text, lockOf(example.lock))
  const own = findings.filter((finding) => finding.id === id)
  expect(own.length).toBeGreaterThan(0)
  const diagnostics = await locate(own, {
    file: FILE,
    declaration,
    root: '/p',
    read: (path) => (path === FILE ? text : undefined),
  })
  return { text, declaration, findings, diagnostics }
}

function notes(text: string): { start: number; end: number; note: string }[] {
  return [...text.matchAll(/\/\/ note \d+\./g)].map(({ index, 0: note }) => ({
    start: index,
    end: index + note.length,
    note,
  }))
}

function applied(fixes: readonly LocatedFix[], text: string): string {
  const { files, skipped } = applyFixes(fixes, () => text)
  expect(skipped).toEqual([])
  return files.get('pipeline.ts') ?? text
}

/** How many findings say the same; an element that moves up takes the path of the one that was removed. */
function count(findings: readonly Finding[], { id, message }: Pick<Diagnostic, 'id' | 'message'>): number {
  // What one literal gives several modules is told as one, each message on its own line.
  const said = message.split('\n')
  return findings.filter((finding) => finding.id === id && said.includes(finding.message)).length
}

/** The declaration with the edits of a fix, by their definition. */
function edited(declaration: unknown, edits: readonly DeclarationEdit[]): unknown {
  const copy: unknown = clone(declaration)
  for (const edit of edits) {
    const key = edit.path.at(-1) ?? ''
    let owner = copy as Record<string | number, unknown>
    for (const segment of edit.path.slice(0, -1)) {
      owner[segment] ??= {}
      owner = owner[segment] as Record<string | number, unknown>
    }
    if (edit.kind === 'set') owner[key] = edit.value
    else if (Array.isArray(owner)) owner.splice(Number(key), 1)
    else {
      const value = owner[key]
      Reflect.deleteProperty(owner, key)
      if (edit.kind === 'renameKey') owner[edit.to] = value
    }
  }
  return copy
}

/** A deep copy; the mark of a pipeline, which is a symbol, is copied too. */
function clone(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clone)
  if (typeof value !== 'object' || value === null) return value
  const copy: object = Object.create(Object.getPrototypeOf(value) as object | null) as object
  for (const key of Reflect.ownKeys(value)) Reflect.set(copy, key, clone(Reflect.get(value, key)))
  return copy
}
