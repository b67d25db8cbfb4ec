/** What the launch scripts share. */
import { wrap, oneLine } from '../text.ts'
import { shComment } from '../shell.ts'

/** A comment over as many lines as it needs. */
export function commentBlock(text: string): string {
  return wrap(oneLine(text), 110).map(shComment).join('\n')
}
