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
      return { ...fix, textEdits }
    })
    const related = finding.related.map((entry) => ({ ...entry, ...place(entry.path, 'value') }))
    return { ...finding, ...place(finding.path, finding.at), related, fixes }
  })
  return diagnostics.sort(compareDiagnostics)
}

/** A path as it is shown: relative to the root where it lies below it, with forward slashes. */
export function displayName(path: string, root: string): string {
  const name = relative(root, path)
  const shown = name.startsWith('..') || isAbsolute(name) || name === '' ? path : name
  return shown.split(sep).join('/')
}
