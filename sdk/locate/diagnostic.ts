/**
 * A diagnostic is a finding with its place in the user's files. The zod schema is the published form of `--json`.
 */
import * as z from 'zod'
import type { Finding } from '../finding/finding.ts'

const path = z.array(z.union([z.string(), z.number().int()]))

/** Lines and columns count from 1; columns count UTF-16 units, as editors do. The end is exclusive. */
const position = {
  file: z.string().describe('relative to the working directory, with forward slashes'),
  line: z.number().int().positive(),
  column: z.number().int().positive(),
  endLine: z.number().int().positive(),
  endColumn: z.number().int().positive(),
  exact: z.boolean().describe('false: the value is computed, and the position is that of the nearest enclosing value'),
}

const textEdit = z.strictObject({
  file: z.string(),
  start: z.number().int().nonnegative().describe('offset in UTF-16 units'),
  end: z.number().int().nonnegative(),
  text: z.string(),
})

const declarationEdit = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('set'), path, value: z.json() }),
  z.strictObject({ kind: z.literal('remove'), path }),
  z.strictObject({ kind: z.literal('renameKey'), path, to: z.string() }),
])

export const diagnostic = z
  .strictObject({
    id: z.string().regex(/^VLA\d{3}$/),
    severity: z.enum(['error', 'warning', 'info']),
    message: z.string(),
    why: z.string(),
    fix: z.string(),
    path,
    at: z.enum(['key', 'value']),
    ...position,
    related: z.array(z.strictObject({ path, note: z.string(), ...position })),
    fixes: z.array(
      z.strictObject({
        label: z.string(),
        kind: z.enum(['safe', 'suggestion']),
        edits: z.array(declarationEdit),
        textEdits: z.array(textEdit).nullable().describe('null: the place cannot be edited without a person'),
        name: z
          .string()
          .nullable()
          .describe('for vla check --fix-suggested; null: a safe fix, or one that cannot be applied'),
      }),
    ),
  })
  .meta({ id: 'Diagnostic' })

export const diagnosticsReport = z
  .strictObject({
    schemaVersion: z.literal(1),
    diagnostics: z.array(diagnostic),
    counts: z.strictObject({
      error: z.number().int().nonnegative(),
      warning: z.number().int().nonnegative(),
      info: z.number().int().nonnegative(),
    }),
  })
  .meta({ id: 'DiagnosticsReport' })

export interface Position {
  readonly file: string
  readonly line: number
  readonly column: number
  readonly endLine: number
  readonly endColumn: number
  /** False where the value is computed and the position is that of the nearest ancestor. */
  readonly exact: boolean
}

export interface TextEdit {
  readonly file: string
  readonly start: number
  readonly end: number
  readonly text: string
}

export type LocatedFix = Finding['fixes'][number] & {
  /** `null` where the declaration is computed at that place and no text stands for the value alone. */
  readonly textEdits: readonly TextEdit[] | null
  /** Of a suggestion that can be applied: `VLA201/1`, counted over all diagnostics. */
  readonly name: string | null
}

export interface Diagnostic extends Omit<Finding, 'related' | 'fixes'>, Position {
  readonly related: readonly (Finding['related'][number] & Position)[]
  readonly fixes: readonly LocatedFix[]
}

export type DiagnosticsReport = z.infer<typeof diagnosticsReport>

/** The order in which diagnostics are shown: by file, line, column, id, message. */
export function compareDiagnostics(a: Diagnostic, b: Diagnostic): number {
  return (
    compare(a.file, b.file) ||
    a.line - b.line ||
    a.column - b.column ||
    compare(a.id, b.id) ||
    compare(a.message, b.message)
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** The published JSON form of a list of diagnostics. */
export function toReport(diagnostics: readonly Diagnostic[]): DiagnosticsReport {
  const count = (severity: Diagnostic['severity']): number => diagnostics.filter((d) => d.severity === severity).length
  return diagnosticsReport.parse({
    schemaVersion: 1,
    diagnostics,
    counts: { error: count('error'), warning: count('warning'), info: count('info') },
  })
}
