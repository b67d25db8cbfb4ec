/** From offsets of a text to its lines. */

/** Both count from 1; columns in UTF-16 units, as in diagnostics. */
export function lineAndColumn(text: string, offset: number): { line: number; column: number } {
  let line = 1
  let start = 0
  for (let newline = text.indexOf('\n'); newline >= 0 && newline < offset; newline = text.indexOf('\n', start)) {
    line += 1
    start = newline + 1
  }
  return { line, column: offset - start + 1 }
}
