/** Findings in the words of TypeScript's language service. */
import type ts from 'typescript'
import type { Diagnostic, LocatedFix, Position } from '../locate/diagnostic.ts'

/** What marks our diagnostics among TypeScript's. */
export const SOURCE = 'vla'

/** VLA302 -> 302. TypeScript's own codes begin at 1000. */
export function codeOf(id: string): number {
  return Number(id.slice('VLA'.length))
}

/** Every code that a finding can have. */
export const codes = Array.from({ length: 999 }, (_, index) => String(index + 1))

/** A finding as an error, a warning, or (what could not be looked at) a suggestion. */
export function toTsDiagnostic(
  typescript: typeof ts,
  finding: Diagnostic,
  file: ts.SourceFile,
  open: (name: string) => ts.SourceFile | undefined,
): ts.Diagnostic {
  const { Error, Warning, Suggestion, Message } = typescript.DiagnosticCategory
  const code = codeOf(finding.id)
  return {
    file,
    ...spanOf(typescript, file, finding),
    code,
    category: { error: Error, warning: Warning, info: Suggestion }[finding.severity],
    messageText: `${finding.id}: ${finding.message}\n\nwhy: ${finding.why}\nfix: ${finding.fix}`,
    source: SOURCE,
    relatedInformation: finding.related.flatMap((entry) => {
      const there = open(entry.file)
      if (there === undefined) return []
      return { file: there, ...spanOf(typescript, there, entry), code, category: Message, messageText: entry.note }
    }),
  }
}

/** A fix as a code action; undefined where it needs a person, or speaks of text that is no longer there. */
export function toCodeAction(
  fix: LocatedFix,
  open: (name: string) => ts.SourceFile | undefined,
): ts.CodeFixAction | undefined {
  const edits = fix.textEdits ?? []
  const files = [...new Set(edits.map(({ file }) => file))]
  if (files.length === 0 || files.some((file) => open(file) === undefined)) return undefined
  return {
    fixName: SOURCE,
    description: fix.label,
    changes: files.map((fileName) => ({
      fileName,
      textChanges: edits
        .filter(({ file }) => file === fileName)
        .map(({ start, end, text }) => ({ span: { start, length: end - start }, newText: text })),
    })),
  }
}

function spanOf(typescript: typeof ts, file: ts.SourceFile, place: Position): ts.TextSpan {
  const offset = (line: number, column: number): number =>
    typescript.getPositionOfLineAndCharacter(file, line - 1, column - 1)
  const start = offset(place.line, place.column)
  return { start, length: offset(place.endLine, place.endColumn) - start }
}
