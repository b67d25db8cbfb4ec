/** The last step of every Python file that we write. The formatter's version is pinned exactly: its output is part of what we emit. */
import { format } from '@wasm-fmt/ruff_fmt'
import { lineWidth } from './literal.ts'

/** Formats Python as `ruff format` does. Throws where the source does not parse: that is a fault of an emitter. */
export function formatPython(source: string, path: string): string {
  return format(source, path, {
    indent_style: 'space',
    indent_width: 4,
    line_width: lineWidth,
    line_ending: 'lf',
    quote_style: 'double',
  })
}
