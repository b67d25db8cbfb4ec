/** The one way by which values reach shell scripts and `#SBATCH` lines. */
import { oneLine, UnwritableValue, writable } from './text.ts'

/** One word of a POSIX shell that stands for exactly this text. Throws for NUL and lone surrogates. */
export function shQuote(text: string): string {
  writable(text, 'shell word')
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/**
 * The value of an `#SBATCH` option. Slurm's own reader knows double quotes, backslash escapes and comments from an unescaped `#`
 * (`_get_argument` in its `src/sbatch/opt.c`); nothing there can carry a line break. Throws for control characters.
 */
export function sbatchValue(text: string): string {
  writable(text, 'Slurm option')
  if (/\p{Cc}/u.test(text))
    throw new UnwritableValue(`a Slurm option cannot contain control characters: ${JSON.stringify(text)}`)
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text
  return `"${text.replace(/["'\\#]/g, '\\$&')}"`
}

/** `# text` on one line. */
export function shComment(text: string): string {
  const line = oneLine(text)
  return `# ${/^(?:shellcheck|SBATCH)\b/i.test(line) ? `"${line}"` : line}`
}
