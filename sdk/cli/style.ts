import { styleText } from 'node:util'
import type { Io } from './io.ts'

/** Text with a style where the reader's terminal shows styles. */
export function paint(io: Pick<Io, 'color'>, style: Parameters<typeof styleText>[0], text: string): string {
  return io.color ? styleText(style, text, { validateStream: false }) : text
}

/** `1 warning`, `2 warnings`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
}
