/** Turns a place in the syntax tree into lines and columns. */
import { Node, type SourceFile } from 'ts-morph'
import type { DeclarationPath } from '../finding/finding.ts'
import type { Position } from './diagnostic.ts'
import type { Found } from './source.ts'

/**
 * The position of what was found. A value that is there is shown by its key or its value, as asked; the nearest ancestor of one that is
 * not by its own key, or by the name of the constructor that made it.
 */
export function positionOf(
  found: Found,
  path: DeclarationPath,
  at: 'key' | 'value',
  nameOf: (file: SourceFile) => string,
): Position {
  const { place } = found
  const isWhole = found.depth === path.length && path.length > 0
  const node = isWhole ? (at === 'key' ? (place.key ?? place.value) : place.value) : (place.key ?? head(place.value))
  const file = node.getSourceFile()
  const start = file.getLineAndColumnAtPos(node.getStart())
  const end = file.getLineAndColumnAtPos(node.getEnd())
  return {
    file: nameOf(file),
    line: start.line,
    column: start.column,
    endLine: end.line,
    endColumn: end.column,
    exact: found.exact && found.depth === path.length,
  }
}

function head(value: Node): Node {
  return Node.isCallExpression(value) ? value.getExpression() : value
}
