/** Turns what was thrown while pipeline.ts was loaded into a diagnostic with its position. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Diagnostic, Position } from './diagnostic.ts'
import { displayName } from './locate.ts'

const ID = 'VLA009'

export interface LoadFailureOptions {
  /** Absolute path of pipeline.ts. */
  readonly file: string
  readonly root?: string
  readonly read?: (path: string) => string | undefined
}

/** A syntax error (esbuild's TransformError) or an exception of the user's module -> one VLA009. */
export function loadFailure(thrown: unknown, options: LoadFailureOptions): Diagnostic {
  const root = options.root ?? process.cwd()
  const read = options.read ?? readText
  const start: Position = {
    file: displayName(options.file, root),
    line: 1,
    column: 1,
    endLine: 1,
    endColumn: 1,
    exact: false,
  }
  const syntax = syntaxError(thrown)
  if (syntax !== undefined) {
    const { text, file, line, column, length } = syntax
    return diagnostic(
      `Syntax error: ${text}`,
      'Nothing of the declaration can be read before its text is valid TypeScript.',
      'Correct the syntax at this place.',
      {
        ...start,
        file: displayName(file, root),
        line,
        column,
        endLine: line,
        endColumn: column + Math.max(length, 1),
        exact: true,
      },
    )
  }
  const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${String(thrown)}`
  const missing = thrown instanceof Error ? missingModule(thrown) : undefined
  if (missing !== undefined) {
    const importer = missing.importer ?? options.file
    const place = find(read(importer) ?? '', missing.specifier)
    return diagnostic(
      `Cannot find '${missing.specifier}'.`,
      'The module cannot be loaded, so nothing of the declaration can be read.',
      missing.specifier.startsWith('.') || missing.specifier.startsWith('/')
        ? 'Correct the path of the import, with its file extension.'
        : `Install it (npm install ${missing.specifier}) or correct the name.`,
      { ...start, file: displayName(importer, root), ...(place ?? {}), exact: place !== undefined },
    )
  }
  const frame = thrown instanceof Error ? firstOwnFrame(thrown.stack ?? '') : undefined
  return diagnostic(
    `pipeline.ts could not be run: ${message}`,
    'The declaration is the value of its default export; an exception means there is none.',
    'Correct what throws at this place.',
    frame === undefined
      ? start
      : {
          file: displayName(frame.file, root),
          line: frame.line,
          column: frame.column,
          endLine: frame.line,
          endColumn: frame.column + 1,
          exact: true,
        },
  )
}

/** The file ran, and its default export is not what `defineVLAPipeline` returns. */
export function notAPipeline(found: unknown, options: LoadFailureOptions): Diagnostic {
  const file = displayName(options.file, options.root ?? process.cwd())
  const text = (options.read ?? readText)(options.file) ?? ''
  const place = find(text, 'export default') ?? { line: 1, column: 1, endLine: 1, endColumn: 1 }
  const what =
    found === undefined
      ? 'has no default export'
      : `exports ${found === null ? 'null' : typeof found === 'object' ? 'an object' : `a ${typeof found}`} that defineVLAPipeline did not make`
  return diagnostic(
    `${file} ${what}.`,
    'The default export is what is checked and built.',
    'Write `export default defineVLAPipeline({ ... })`.',
    { file, ...place, exact: text.includes('export default') },
  )
}

function diagnostic(message: string, why: string, fix: string, position: Position): Diagnostic {
  return { id: ID, severity: 'error', message, why, fix, path: [], at: 'value', ...position, related: [], fixes: [] }
}

interface SyntaxFailure {
  readonly text: string
  readonly file: string
  readonly line: number
  readonly column: number
  readonly length: number
}

/** esbuild counts columns from 0 in `errors` and in the message text alike. */
function syntaxError(thrown: unknown): SyntaxFailure | undefined {
  if (typeof thrown !== 'object' || thrown === null) return undefined
  const { errors, message } = thrown as { errors?: unknown; message?: unknown }
  const [first] = Array.isArray(errors) ? (errors as unknown[]) : []
  const location = (first as { location?: Partial<SyntaxFailure> } | undefined)?.location
  const text = (first as { text?: unknown } | undefined)?.text
  if (typeof text === 'string' && typeof location?.file === 'string' && typeof location.line === 'number') {
    return {
      text,
      file: plainPath(location.file),
      line: location.line,
      column: (location.column ?? 0) + 1,
      length: location.length ?? 1,
    }
  }
  const match = typeof message === 'string' ? /^(.+?):(\d+):(\d+): ERROR: (.+)$/m.exec(message) : null
  if (match === null) return undefined
  const [, file = '', line = '1', column = '0', what = ''] = match
  return { text: what, file: plainPath(file.trim()), line: Number(line), column: Number(column) + 1, length: 1 }
}

function missingModule(error: Error): { specifier: string; importer: string | undefined } | undefined {
  const code = (error as { code?: unknown }).code
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return undefined
  const match = /Cannot find (?:module|package) '([^']+)'(?: imported from ([^\n]+))?/.exec(error.message)
  if (match === null) return undefined
  const [, target = '', importer] = match
  const from = importer === undefined ? undefined : plainPath(importer.trim().replace(/^['"]|['"]$/g, ''))
  return { specifier: specifierOf(target, from), importer: from }
}

/** Node names the absolute path that it looked for; the user wrote a relative one. */
function specifierOf(target: string, importer: string | undefined): string {
  const path = plainPath(target)
  if (importer === undefined || !path.startsWith('/')) return target
  const name = displayName(path, importer.slice(0, importer.lastIndexOf('/') + 1))
  return name.startsWith('/') ? path : `./${name}`
}

/** The innermost stack frame that lies in the user's own files. Handles `at f (file:1:2)` and `at file:1:2`. */
function firstOwnFrame(stack: string): { file: string; line: number; column: number } | undefined {
  for (const line of stack.split('\n')) {
    const match = /^\s*at (?:.*? \()?(?:async )?((?:file:\/\/)?\/.*?):(\d+):(\d+)\)?$/.exec(line)
    if (match === null) continue
    const [, where = '', row = '1', column = '1'] = match
    const file = plainPath(where)
    if (file.includes('/node_modules/') || isOurs(file)) continue
    return { file, line: Number(row), column: Number(column) }
  }
  return undefined
}

function isOurs(file: string): boolean {
  return file.startsWith(fileURLToPath(new URL('..', import.meta.url)))
}

function plainPath(file: string): string {
  const bare = file.replace(/\?.*$/, '')
  return bare.startsWith('file://') ? fileURLToPath(bare) : bare
}

function find(text: string, needle: string): Omit<Position, 'file' | 'exact'> | undefined {
  const index = text.indexOf(needle)
  if (index < 0) return undefined
  const before = text.slice(0, index)
  const line = before.split('\n').length
  const column = index - (before.lastIndexOf('\n') + 1) + 1
  return { line, column, endLine: line, endColumn: column + needle.length }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
