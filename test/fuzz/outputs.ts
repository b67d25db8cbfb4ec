/** What must hold where a declaration is built, shown in its file, or given to the command line. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { emit } from '../../sdk/emit/emit.ts'
import type { EmitContext } from '../../sdk/emit/emitted.ts'
import { PlanIncomplete } from '../../sdk/emit/project.ts'
import type { DeclarationPath } from '../../sdk/finding/finding.ts'
import * as vla from '../../sdk/index.ts'
import { CONSTRUCTORS } from '../../sdk/locate/constructors.ts'
import { locate } from '../../sdk/locate/locate.ts'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { vlaJson } from '../cli/io.ts'
import type { Data } from './declarations.ts'
import type { Draw } from './draw.ts'
import { exists, judge, type Case } from './judge.ts'
import { printPipeline, VOCABULARY } from './print.ts'
import { isContainer } from './wild.ts'

/** What has no error can be built; what the lock leaves open is said, by the build and by the check. */
export function emitProblems(given: Case, context: EmitContext): string[] {
  const { plan, findings } = judge(given)
  if (plan === undefined || findings.some(({ severity }) => severity === 'error')) return []
  try {
    emit(plan, context)
    return []
  } catch (error) {
    if (!(error instanceof PlanIncomplete)) throw error
    return findings.some(({ severity }) => severity === 'info' || severity === 'warning')
      ? []
      : [`a declaration without a finding cannot be built: ${[...error.missing.keys()].join(' ')}`]
  }
}

/** Every finding has its place in a real file, exact wherever the value is written there. */
export async function placeProblems({ declaration, lock }: Case, d: Draw): Promise<string[]> {
  const { text, constants } = printPipeline(declaration, d)
  const written = evaluate(text.replace(/^import .*$/m, '').replace('export default', 'return'))
  const file = '/project/pipeline.ts'
  const { findings } = judge({ declaration: written as Data, lock })
  const read = (path: string): string | undefined => (path === file ? text : undefined)
  const diagnostics = await locate(findings, { file, declaration: written, root: '/project', read })
  return diagnostics.flatMap((diagnostic) =>
    diagnosticProblems(diagnostic, written, text, constants).map((problem) => `${diagnostic.id}: ${problem}`),
  )
}

function diagnosticProblems(diagnostic: Diagnostic, written: unknown, text: string, constants: string): string[] {
  const { path, at, exact, related, file } = diagnostic
  const problems = [diagnostic, ...related].flatMap((place) => {
    const shown = excerpt(text, place)
    return shown === undefined || file !== 'pipeline.ts' ? ['its place is not in the file'] : []
  })
  const edits = diagnostic.fixes.flatMap(({ textEdits }) => textEdits ?? [])
  if (edits.some(({ start, end }) => start < 0 || end < start || end > text.length))
    problems.push('its fix edits beyond the file')
  if (problems.length > 0 || path.length === 0 || !exists(path, written)) return problems
  const shown = excerpt(text, diagnostic) ?? ''
  const key = String(path.at(-1))
  if (!exact) return [`its place in a literal is not exact`]
  if (key === 'kind' && Object.hasOwn(CONSTRUCTORS, shown)) return []
  if (at === 'key' && (shown === key || shown === JSON.stringify(key) || shown === `['${key}']`)) return []
  const value = valueAt(written, path)
  return sameText(evaluate(`${constants}\nreturn (${shown})`), value) ? [] : ['its place shows something else']
}

function valueAt(root: unknown, path: DeclarationPath): unknown {
  return path.reduce<unknown>((value, step) => (value as Data)[step], root)
}

/** Functions, symbols and the like are made anew by each evaluation. */
function sameText(a: unknown, b: unknown): boolean {
  if (isContainer(a) && isContainer(b)) {
    const keys = Object.keys(a)
    return (
      keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && sameText(a[key], b[key]))
    )
  }
  return Object.is(a, b) || (typeof a === typeof b && !isContainer(a) && String(a) === String(b))
}

/** The text from the start to the end of a place, undefined where it lies outside. */
function excerpt(
  text: string,
  place: Pick<Diagnostic, 'line' | 'column' | 'endLine' | 'endColumn'>,
): string | undefined {
  const lines = text.split('\n')
  const offset = (line: number, column: number): number | undefined => {
    const there = lines[line - 1]
    if (there === undefined || column < 1 || column > there.length + 1) return undefined
    return lines.slice(0, line - 1).reduce((sum, before) => sum + before.length + 1, 0) + column - 1
  }
  const start = offset(place.line, place.column)
  const end = offset(place.endLine, place.endColumn)
  return start === undefined || end === undefined || end < start ? undefined : text.slice(start, end)
}

function evaluate(code: string): unknown {
  // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- the text is our own
  return new Function(...VOCABULARY, code)(...Object.values(vla)) as unknown
}

/** The command itself: it ends with a code that is not that of a bug, and what it prints has its published form. */
export async function commandProblems({ declaration }: Case, folder: string, d: Draw): Promise<string[]> {
  writeFileSync(join(folder, 'pipeline.ts'), printPipeline(declaration, d).text)
  rmSync(join(folder, 'vla.lock.json'), { force: true })
  const { exitCode } = await vlaJson(folder, ['check'])
  return exitCode === 0 || exitCode === 4 ? [] : [`vla check exits with ${String(exitCode)}`]
}
