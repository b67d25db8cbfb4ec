/** The one way by which values reach TOML. */
import { codePoints, isInvisible, writable } from './text.ts'

/** A basic string. Throws for NUL and lone surrogates. */
export function tomlString(text: string): string {
  const body = codePoints(writable(text, 'TOML string'))
    .map((character) => {
      if (character === '"' || character === '\\') return `\\${character}`
      if (character === '\n') return '\\n'
      if (character === '\t') return '\\t'
      if (!isInvisible(character)) return character
      const code = character.codePointAt(0) ?? 0
      return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`
    })
    .join('')
  return `"${body}"`
}

/** An array of strings, one on each line. */
export function tomlStrings(items: readonly string[]): string {
  return items.length === 0 ? '[]' : `[\n${items.map((item) => `    ${tomlString(item)},`).join('\n')}\n]`
}
