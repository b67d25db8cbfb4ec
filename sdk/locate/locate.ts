/**
 * Findings -> diagnostics: each with its file, line and column, and its fixes as edits of the text.
 */
import { isAbsolute, relative, sep } from 'node:path'
import type { Finding } from '../finding/finding.ts'
import { compareDiagnostics, type Diagnostic, type LocatedFix, type Position } from './diagnostic.ts'

export interface LocateOptions {
  /** Absolute path of pipeline.ts. */
  readonly file: string
  /** What the default export was when it ran; literals are checked against it. */
  readonly declaration: unknown
  /** File names in diagnostics are relative to this folder; default: the working directory. */
  readonly root?: string
  /** Text of a file, or `undefined` where it does not exist; default: from the disk. */
  readonly read?: (path: string) => string | undefined
}

/** Finds the place of every finding. Without findings nothing is loaded and nothing is read. */
export async function locate(findings: readonly Finding[], options: LocateOptions): Promise<Diagnostic[]> {
  if (findings.length === 0) return []
  const [{ PipelineSource }, { textEditsOf }, { positionOf }] = await Promise.all([
    import('./source.ts'),
    import('./edits.ts'),
    import('./position.ts'),
  ])
  const source = new PipelineSource(options.file, options.declaration, options.read)
  const root = options.root ?? process.cwd()
  const nameOf = (file: { getFilePath(): string }): string => displayName(file.getFilePath(), root)
  const positions = new Map<string, Position>()
  const place = (path: Finding['path'], at: Finding['at']): Position => {
    const key = JSON.stringify([path, at])
    const known = positions.get(key)
    if (known !== undefined) return known
    const position = positionOf(source.find(path), path, at, nameOf)
    positions.set(key, position)
    return position
  }
  const diagnostics = findings.map((finding): Diagnostic => {
    const fixes = finding.fixes.map((fix): LocatedFix => {
      const textEdits = textEditsOf(fix.edits, source, nameOf)
      return { ...fix, textEdits, name: null }
    })
    const related = finding.related.map((entry) => ({ ...entry, ...place(entry.path, 'value') }))
    return { ...finding, ...place(finding.path, finding.at), related, fixes }
  })
  return named(mergeShared(diagnostics.sort(compareDiagnostics)))
}

/** Gives each suggestion that can be applied the name that it is chosen by. */
function named(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const counts = new Map<string, number>()
  return diagnostics.map((diagnostic) => {
    const fixes = diagnostic.fixes.map((fix): LocatedFix => {
      if (fix.kind === 'safe' || fix.textEdits === null) return fix
      const count = (counts.get(diagnostic.id) ?? 0) + 1
      counts.set(diagnostic.id, count)
      return { ...fix, name: `${diagnostic.id}/${String(count)}` }
    })
    return { ...diagnostic, fixes }
  })
}

/** A literal that several modules share is one cause: what one rule says about it stands in one diagnostic. */
function mergeShared(sorted: readonly Diagnostic[]): Diagnostic[] {
  const merged: Diagnostic[] = []
  for (const next of sorted) {
    const last = merged.at(-1)
    if (last === undefined || !isSameCause(last, next)) {
      merged.push(next)
      continue
    }
    const known = new Set(last.related.map((entry) => JSON.stringify(entry)))
    const related = [...last.related, ...next.related.filter((entry) => !known.has(JSON.stringify(entry)))]
    const message = last.message.split('\n').includes(next.message) ? last.message : `${last.message}\n${next.message}`
    merged[merged.length - 1] = { ...last, message, related }
  }
  return merged
}

function isSameCause(a: Diagnostic, b: Diagnostic): boolean {
  const isSamePlace =
    a.file === b.file &&
    a.line === b.line &&
    a.column === b.column &&
    a.endLine === b.endLine &&
    a.endColumn === b.endColumn
  return a.id === b.id && a.exact && b.exact && isSamePlace && JSON.stringify(a.path) !== JSON.stringify(b.path)
}

/** A path as it is shown: relative to the root where it lies below it, with forward slashes. */
export function displayName(path: string, root: string): string {
  const name = relative(root, path)
  const shown = name.startsWith('..') || isAbsolute(name) || name === '' ? path : name
  return shown.split(sep).join('/')
}
