/**
 * Diagnostics as workflow commands of GitHub Actions: lines of a log that the runner turns into annotations.
 *
 * Form and escapes: https://docs.github.com/actions/reference/workflow-commands-for-github-actions and `command.ts` of `@actions/core`.
 */
import type { Diagnostic } from './diagnostic.ts'
import { nearText, visible } from './text.ts'

export interface GithubOptions {
  /** The path that GitHub knows a file by, relative to the repository. */
  readonly fileOf: (file: string) => string
  /** Short name of a rule. */
  readonly nameOf: (id: string) => string | undefined
}

const COMMAND = { error: 'error', warning: 'warning', info: 'notice' } as const

/** One command per diagnostic, each on its own line, with a newline at the end; nothing for none. */
export function githubCommands(diagnostics: readonly Diagnostic[], options: GithubOptions): string {
  return diagnostics.map((diagnostic) => `${command(diagnostic, options)}\n`).join('')
}

/** A command that belongs to no file. */
export function githubError(message: string): string {
  return `::error title=vla::${escapeData(message)}\n`
}

function command(diagnostic: Diagnostic, { fileOf, nameOf }: GithubOptions): string {
  const { id, severity, path, line, column, endLine, endColumn, exact } = diagnostic
  const name = nameOf(id)
  // The runner takes columns only of annotations on one line.
  const columns = line === endLine ? { col: column, endColumn } : {}
  const title = name === undefined ? id : `${id} ${name}`
  const properties = { file: fileOf(diagnostic.file), line, endLine, ...columns, title }
  const text = [
    diagnostic.message,
    ...(exact || path.length === 0 ? [] : [`(${nearText(path)})`]),
    ...diagnostic.related.map((entry) => `${fileOf(entry.file)}:${String(entry.line)} ${entry.note}`),
    `fix: ${diagnostic.fix}`,
  ].join('\n')
  const listed = Object.entries(properties).map(([key, value]) => `${key}=${escapeProperty(String(value))}`)
  return `::${COMMAND[severity]} ${listed.join(',')}::${escapeData(text)}`
}

/** Of a message: what would end the line, and the sign of the escapes themselves. */
function escapeData(text: string): string {
  return visible(text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A'))
}

/** Of a property: also what ends a property or all of them. */
function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C')
}
