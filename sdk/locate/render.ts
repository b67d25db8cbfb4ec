/** Diagnostics for the terminal: position, code frame, why, fix, related places, and a line that sums up. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { styleText } from 'node:util'
import type { Diagnostic, LocatedFix, Position } from './diagnostic.ts'
import { hunksOf } from './hunks.ts'
import { nearText, visible } from './text.ts'

export interface RenderOptions {
  /** Whether to colour. */
  readonly colour: boolean
  /** Columns that text may take; default 100. */
  readonly width?: number
  /** Folder that the file names are relative to; default: the working directory. */
  readonly root?: string
  /** Text of a file as named in the diagnostics. */
  readonly read?: (file: string) => string | undefined
  /** Short name of a rule, `dtype-unsupported-on-gpu`. */
  readonly nameOf?: (id: string) => string | undefined
}

type Style = Parameters<typeof styleText>[0]

const COLOUR = { error: 'red', warning: 'yellow', info: 'cyan' } as const
const FRAME_CONTEXT = 1
const MAX_FRAME_WIDTH = 160

/** The whole report, ending with a newline. */
export function render(diagnostics: readonly Diagnostic[], options: RenderOptions): string {
  const texts = new Map<string, string | undefined>()
  const read = (file: string): string | undefined => {
    if (!texts.has(file))
      texts.set(file, options.read === undefined ? fromDisk(file, options.root) : options.read(file))
    return texts.get(file)
  }
  const parts = diagnostics.map((diagnostic) => renderOne(diagnostic, read, options))
  return `${[...parts, summary(diagnostics, options)].join('\n')}\n`
}

/** `2 errors, 1 warning (1 can be put right with --fix)`; what is only suggested is not counted. */
export function summary(diagnostics: readonly Diagnostic[], options: Pick<RenderOptions, 'colour'>): string {
  const style = styler(options.colour)
  const parts = (['error', 'warning', 'info'] as const).flatMap((severity) => {
    const count = diagnostics.filter((diagnostic) => diagnostic.severity === severity).length
    if (count === 0) return []
    const noun = severity === 'info' ? 'note' : severity
    return [style(COLOUR[severity], `${String(count)} ${noun}${count === 1 ? '' : 's'}`)]
  })
  if (parts.length === 0) return style('green', 'no findings')
  const fixable = diagnostics.filter((d) => d.fixes.some((fix) => fix.kind === 'safe' && fix.textEdits !== null)).length
  return parts.join(', ') + (fixable === 0 ? '' : ` (${String(fixable)} can be put right with --fix)`)
}

function renderOne(diagnostic: Diagnostic, read: (file: string) => string | undefined, options: RenderOptions): string {
  const style = styler(options.colour)
  const width = Math.max(40, options.width ?? 100)
  const name = options.nameOf?.(diagnostic.id)
  const where = `${visible(diagnostic.file)}:${String(diagnostic.line)}:${String(diagnostic.column)}`
  const head = [
    style('bold', where),
    style(COLOUR[diagnostic.severity], diagnostic.severity),
    style('bold', diagnostic.id),
    name ?? '',
  ]
  const lines = [head.filter((part) => part !== '').join(' '), ...wrap(diagnostic.message, width, '  '), '']
  const text = read(diagnostic.file)
  if (text !== undefined) lines.push(...codeFrame(text, diagnostic, style), '')
  if (diagnostic.path.length > 0 && !diagnostic.exact) lines.push(style('dim', `  ${nearText(diagnostic.path)}`))
  for (const related of diagnostic.related) {
    lines.push(
      `  ${style('dim', `${visible(related.file)}:${String(related.line)}:${String(related.column)}`)} ${visible(related.note)}${related.exact ? '' : ' (the nearest place)'}`,
    )
  }
  lines.push(...labelled('why: ', diagnostic.why, width), ...labelled('fix: ', diagnostic.fix, width))
  for (const fix of diagnostic.fixes) lines.push(...fixLines(fix, diagnostic.file, read, style))
  lines.push(style('dim', `  vla explain ${diagnostic.id}`), '')
  return lines.join('\n')
}

/** How a fix is applied, and the lines that it changes. */
function fixLines(
  { kind, name, label, textEdits }: LocatedFix,
  file: string,
  read: (file: string) => string | undefined,
  style: (style: Style, text: string) => string,
): string[] {
  if (textEdits === null || textEdits.length === 0) return []
  const lines = [`  ${style('cyan', kind === 'safe' ? '--fix' : `--fix-suggested ${name ?? ''}`)}  ${visible(label)}`]
  for (const changed of new Set(textEdits.map((edit) => edit.file))) {
    const text = read(changed)
    if (text === undefined) continue
    if (changed !== file) lines.push(`    ${visible(changed)}`)
    const own = textEdits.filter((edit) => edit.file === changed)
    for (const { line, removed, added } of hunksOf(text, own)) {
      const digits = String(line + Math.max(removed.length, added.length)).length
      const side = (sign: '-' | '+', colour: Style, texts: readonly string[]): string[] =>
        texts.map((content, index) =>
          style(colour, `${sign} ${String(line + index).padStart(digits)} | ${visible(cutTo(content))}`.trimEnd()),
        )
      lines.push(...side('-', 'red', removed), ...side('+', 'green', added))
    }
  }
  return lines
}

function cutTo(line: string): string {
  return line.length <= MAX_FRAME_WIDTH ? line : `${line.slice(0, MAX_FRAME_WIDTH - 3)}...`
}

/** The lines around a position, with carets under it. */
export function codeFrame(text: string, position: Position, style: (style: Style, text: string) => string): string[] {
  const lines = text.split(/\r?\n/)
  const first = Math.max(1, position.line - FRAME_CONTEXT)
  const last = Math.min(lines.length, position.line + FRAME_CONTEXT)
  const digits = String(last).length
  const result: string[] = []
  for (let number = first; number <= last; number += 1) {
    const line = lines[number - 1] ?? ''
    const isTarget = number === position.line
    const gutter = `${isTarget ? '>' : ' '} ${String(number).padStart(digits)} |`
    const cut =
      line.length > MAX_FRAME_WIDTH ? window(line, isTarget ? position.column : 1) : { text: line, skipped: 0 }
    result.push(`${style(isTarget ? 'red' : 'dim', gutter)} ${visible(cut.text)}`.trimEnd())
    if (!isTarget) continue
    const column = Math.max(1, Math.min(position.column - cut.skipped, cut.text.length + 1))
    const end = position.endLine === position.line ? position.endColumn - cut.skipped : cut.text.length + 1
    const carets = Math.max(1, Math.min(end, cut.text.length + 1) - column)
    // Tabs are repeated, so that the carets stand under their text whatever a tab is worth.
    const lead = cut.text.slice(0, column - 1).replace(/[^\t]/g, ' ')
    result.push(`${style('dim', `  ${' '.repeat(digits)} |`)} ${lead}${style('red', '^'.repeat(carets))}`)
  }
  return result
}

function window(line: string, column: number): { text: string; skipped: number } {
  const skipped = Math.max(0, Math.min(column - 1 - 40, line.length - MAX_FRAME_WIDTH))
  return { text: line.slice(skipped, skipped + MAX_FRAME_WIDTH), skipped }
}

function labelled(label: string, text: string, width: number): string[] {
  return wrap(text, width, ' '.repeat(2 + label.length)).map((line, index) =>
    index === 0 ? `  ${label}${line.trimStart()}` : line,
  )
}

function wrap(text: string, width: number, indent: string): string[] {
  const lines: string[] = []
  for (const paragraph of visible(text).split('\n')) {
    let line = ''
    for (const word of paragraph.split(' ')) {
      if (line !== '' && indent.length + line.length + 1 + word.length > width) {
        lines.push(indent + line)
        line = word
      } else {
        line = line === '' ? word : `${line} ${word}`
      }
    }
    lines.push(indent + line)
  }
  return lines
}

function styler(colour: boolean): (style: Style, text: string) => string {
  return (style, text) => (colour ? styleText(style, text, { validateStream: false }) : text)
}

function fromDisk(file: string, root: string | undefined): string | undefined {
  try {
    return readFileSync(resolve(root ?? process.cwd(), file), 'utf8')
  } catch {
    return undefined
  }
}
