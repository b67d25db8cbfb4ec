/** What edits change of a text, line by line: the hunks of a unified diff without context. */
import type { TextEdit } from './diagnostic.ts'

export interface Hunk {
  /** First line that changes, from 1; where nothing is removed, the line before which the new ones stand. */
  readonly line: number
  readonly removed: readonly string[]
  readonly added: readonly string[]
}

/** @param edits of this text; they do not overlap */
export function hunksOf(text: string, edits: readonly Pick<TextEdit, 'start' | 'end' | 'text'>[]): Hunk[] {
  const hunks: Hunk[] = []
  let open: { start: number; end: number; edits: (typeof edits)[number][] } | undefined
  const close = (): void => {
    if (open !== undefined) hunks.push(hunk(text, open.start, open.end, open.edits))
  }
  for (const edit of [...edits].sort((a, b) => a.start - b.start)) {
    const start = text.lastIndexOf('\n', edit.start - 1) + 1
    // What is cut up to the beginning of a line leaves that line alone, unless something is left before it.
    const cutsWholeLines = edit.start === start && edit.end > start && text[edit.end - 1] === '\n'
    const end = cutsWholeLines ? edit.end : endOfLine(text, edit.end)
    if (open !== undefined && start < open.end) {
      open.end = Math.max(open.end, end)
      open.edits.push(edit)
    } else {
      close()
      open = { start, end, edits: [edit] }
    }
  }
  close()
  return hunks.filter(({ removed, added }) => removed.length > 0 || added.length > 0)
}

function hunk(
  text: string,
  start: number,
  end: number,
  edits: readonly Pick<TextEdit, 'start' | 'end' | 'text'>[],
): Hunk {
  let after = text.slice(start, end)
  for (const edit of [...edits].reverse())
    after = after.slice(0, edit.start - start) + edit.text + after.slice(edit.end - start)
  const removed = linesOf(text.slice(start, end))
  const added = linesOf(after)
  let same = 0
  while (same < removed.length && same < added.length && removed[same] === added[same]) same += 1
  let last = 0
  while (last < removed.length - same && last < added.length - same && removed.at(-1 - last) === added.at(-1 - last))
    last += 1
  return {
    line: text.slice(0, start).split('\n').length + same,
    removed: removed.slice(same, removed.length - last),
    added: added.slice(same, added.length - last),
  }
}

/** After the line end, where there is one. */
function endOfLine(text: string, from: number): number {
  const newline = text.indexOf('\n', from)
  return newline < 0 ? text.length : newline + 1
}

function linesOf(text: string): string[] {
  if (text === '') return []
  return text.replace(/\r?\n$/, '').split(/\r?\n/)
}
