/** Writes TypeScript as Prettier would at 120 columns, so that an imported pipeline.ts needs no reformatting. */

/** A call of one of the vocabulary's constructors. */
export class Call {
  readonly name: string
  readonly args: readonly Code[]

  constructor(name: string, ...args: readonly Code[]) {
    this.name = name
    this.args = args
  }
}

/** What stands in a pipeline.ts. Fields that are undefined are left out. */
export type Code =
  string | number | boolean | null | Call | readonly Code[] | { readonly [key: string]: Code | undefined }

const width = 120

/** The file: a comment, the imports that are needed, the declaration. */
export function pipelineFile(
  comment: readonly string[],
  declaration: { readonly [key: string]: Code | undefined },
): string {
  const names = ['defineVLAPipeline', ...calls(declaration)].toSorted()
  const body = `export default ${print(new Call('defineVLAPipeline', declaration), 0, 'export default '.length, 0)}`
  return [...comment, importLine([...new Set(names)]), '', body, ''].join('\n')
}

/** One expression, as it stands behind `before` characters in a line that is indented by `indent`. */
export function expression(code: Code, indent = 0, before = 0): string {
  return print(code, indent, before, 1)
}

function importLine(names: readonly string[]): string {
  const line = `import { ${names.join(', ')} } from 'vla-pipeline'`
  return line.length <= width
    ? line
    : `import {\n${names.map((name) => `  ${name},`).join('\n')}\n} from 'vla-pipeline'`
}

function calls(code: Code | undefined): string[] {
  if (typeof code !== 'object' || code === null) return []
  if (code instanceof Call) return [code.name, ...code.args.flatMap(calls)]
  return Object.values(code).flatMap(calls)
}

/** Sentences as `//` lines of at most the width, each with a hanging indent below its first line. */
export function commentLines(text: string, hanging = ''): string[] {
  const lines: string[] = []
  let line = '//'
  for (const word of text.split(/\s+/)) {
    if (line.length + 1 + word.length > width && line !== '//') {
      lines.push(line)
      line = `//${hanging}`
    }
    line += ` ${word}`
  }
  return [...lines, line]
}

/** `indent`: of the line it stands on; `before`, `after`: characters before and behind it on that line. */
function print(code: Code, indent: number, before: number, after: number): string {
  const flat = inline(code)
  if (before + flat.length + after <= width && !mustBreak(code)) return flat
  if (code instanceof Call) {
    const [last, ...others] = code.args.toReversed()
    if (last === undefined) return flat
    const head = `${code.name}(${others
      .toReversed()
      .map((argument) => `${inline(argument)}, `)
      .join('')}`
    return `${head}${print(last, indent, before + head.length, after + 1)})`
  }
  if (Array.isArray(code)) return brokenArray(code as readonly Code[], indent)
  if (typeof code !== 'object' || code === null) return flat
  const inner = ' '.repeat(indent + 2)
  const lines = fields(code as never).map(([key, value]) => {
    const start = `${inner}${propertyName(key)}: `
    return `${start}${print(value, indent + 2, start.length, 1)},`
  })
  return `{\n${lines.join('\n')}\n${' '.repeat(indent)}}`
}

/** Numbers fill their lines; anything else stands one on each. */
function brokenArray(items: readonly Code[], indent: number): string {
  const inner = ' '.repeat(indent + 2)
  const close = ' '.repeat(indent)
  if (items.length > 1 && items.every((item) => typeof item === 'number')) {
    const lines: string[] = []
    let line = inner
    for (const item of items) {
      const text = `${inline(item)},`
      if (line !== inner && line.length + 1 + text.length > width) {
        lines.push(line)
        line = inner
      }
      line += line === inner ? text : ` ${text}`
    }
    return `[\n${[...lines, line].join('\n')}\n${close}]`
  }
  const lines = items.map((item) => `${inner}${print(item, indent + 2, indent + 2, 1)},`)
  return `[\n${lines.join('\n')}\n${close}]`
}

/** Prettier breaks lists of several objects, or of several lists, with more than one entry each. */
function mustBreak(code: Code): boolean {
  if (typeof code !== 'object' || code === null) return false
  if (code instanceof Call) return code.args.some(mustBreak)
  const inside = Array.isArray(code) ? (code as readonly Code[]) : fields(code as never).map(([, value]) => value)
  if (inside.some(mustBreak)) return true
  if (!Array.isArray(code) || code.length < 2) return false
  const items = code as readonly Code[]
  const sizes = (kind: (item: Code) => boolean): boolean =>
    items.every((item) => kind(item) && Object.keys(item as object).length > 1)
  return (
    sizes((item) => Array.isArray(item)) ||
    sizes((item) => typeof item === 'object' && item !== null && !Array.isArray(item) && !(item instanceof Call))
  )
}

function inline(code: Code): string {
  if (typeof code === 'string') return quoted(code)
  if (typeof code === 'number') return number(code)
  if (typeof code !== 'object' || code === null) return String(code)
  if (code instanceof Call) return `${code.name}(${code.args.map(inline).join(', ')})`
  if (Array.isArray(code)) return `[${(code as readonly Code[]).map(inline).join(', ')}]`
  const entries = fields(code as never).map(([key, value]) => `${propertyName(key)}: ${inline(value)}`)
  return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`
}

function fields(code: { readonly [key: string]: Code | undefined }): [string, Code][] {
  return Object.entries(code).filter((entry): entry is [string, Code] => entry[1] !== undefined)
}

function propertyName(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key)
}

/** Single quotes, unless the text has more of those than of double ones. */
function quoted(text: string): string {
  const singles = text.split("'").length - 1
  const quote = singles > text.split('"').length - 1 ? '"' : "'"
  const escaped = JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(String.raw`\"`, '"')
  return `${quote}${escaped.replaceAll(quote, `\\${quote}`)}${quote}`
}

/** `20_000`, `2.5e-5`. */
function number(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) >= 1000) return String(value).replaceAll(/\B(?=(\d{3})+$)/g, '_')
  const [plain, short] = [String(value), value.toExponential()]
  return Number.isInteger(value) || plain.length <= short.length ? plain : short
}
