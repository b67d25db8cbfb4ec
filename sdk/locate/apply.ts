/**
 * Applies text edits of fixes. Two fixes that touch the same text are never both applied: the second waits for the next run.
 */
import type { Diagnostic, LocatedFix, TextEdit } from './diagnostic.ts'

export interface AppliedFixes {
  /** File -> new text, for the files that changed. */
  readonly files: ReadonlyMap<string, string>
  readonly applied: readonly LocatedFix[]
  /** Safe fixes that were left out, because they overlap with an applied one or their place cannot be edited. */
  readonly skipped: readonly LocatedFix[]
}

/** The safe fixes of all diagnostics, one per finding, in order. */
export function safeFixes(diagnostics: readonly Diagnostic[]): LocatedFix[] {
  return diagnostics.flatMap((diagnostic) => diagnostic.fixes.find((fix) => fix.kind === 'safe') ?? [])
}

/**
 * Applies fixes to texts.
 *
 * @param read the present text of a file named in the edits
 */
export function applyFixes(fixes: readonly LocatedFix[], read: (file: string) => string): AppliedFixes {
  const accepted = new Map<string, TextEdit[]>()
  const applied: LocatedFix[] = []
  const skipped: LocatedFix[] = []
  for (const fix of fixes) {
    const edits = fix.textEdits
    if (edits === null || edits.length === 0 || clashes(edits, accepted)) {
      skipped.push(fix)
      continue
    }
    applied.push(fix)
    for (const edit of edits) {
      const known = accepted.get(edit.file) ?? []
      // An identical edit (two fixes that add the same import) is made once.
      if (!known.some((other) => sameEdit(edit, other))) known.push(edit)
      accepted.set(edit.file, known)
    }
  }
  const files = new Map<string, string>()
  for (const [file, edits] of accepted) {
    let text = read(file)
    // Stable sort: of two insertions at one place, the one accepted first stands first.
    const fromTheEnd = edits
      .map((edit, index) => ({ edit, index }))
      .sort((a, b) => b.edit.start - a.edit.start || b.index - a.index)
    for (const { edit } of fromTheEnd) text = text.slice(0, edit.start) + edit.text + text.slice(edit.end)
    files.set(file, text)
  }
  return { files, applied, skipped }
}

function clashes(edits: readonly TextEdit[], accepted: ReadonlyMap<string, readonly TextEdit[]>): boolean {
  return edits.some((edit) =>
    (accepted.get(edit.file) ?? []).some((other) => !sameEdit(edit, other) && overlaps(edit, other)),
  )
}

/** Two insertions at the same offset overlap too: their order would decide the result. */
function overlaps(a: TextEdit, b: TextEdit): boolean {
  if (a.start === b.start) return true
  return a.start < b.end && b.start < a.end
}

function sameEdit(a: TextEdit, b: TextEdit): boolean {
  return a.start === b.start && a.end === b.end && a.text === b.text
}
