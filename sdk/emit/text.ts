/** What every emitter asks of a text before it writes it anywhere. */

/** A value that no generated file may carry. Rules refuse these with a finding; here they are refused once more, whatever came before. */
export class UnwritableValue extends Error {
  override readonly name = 'UnwritableValue'
}

/** Characters that change what a reader sees without being seen: controls, separators, formats (bidirectional overrides, zero widths), private use. */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/u

/** The code points of a text, one string each. */
export function codePoints(text: string): string[] {
  return Array.from(text)
}

/** Whether a code point must be escaped rather than shown. The space is the only blank that is shown. */
export function isInvisible(character: string): boolean {
  return invisible.test(character) || (character !== ' ' && /\p{Zs}/u.test(character))
}

/**
 * Returns the text unchanged, or throws {@link UnwritableValue}: NUL ends strings in C, and lone surrogates have no UTF-8.
 *
 * @param what names the value in the message
 */
export function writable(text: string, what = 'text'): string {
  if (text.includes('\0')) throw new UnwritableValue(`${what} contains NUL: ${JSON.stringify(text)}`)
  if (/\p{Cs}/u.test(text))
    throw new UnwritableValue(`${what} contains half of a surrogate pair: ${JSON.stringify(text)}`)
  return text
}

/** One visible line: line breaks and controls become spaces, invisible characters go. For comments, headings and the like. */
export function oneLine(text: string): string {
  return codePoints(writable(text))
    .map((character) => (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(character) ? ' ' : isInvisible(character) ? '' : character))
    .join('')
    .replace(/ {2,}/g, ' ')
    .trim()
}

/** Breaks a line at spaces so that each part has at most `width` characters; a longer word stands alone. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  if (line !== '') lines.push(line)
  return lines
}
