/** A Python file in the making: statements of {@link Py}, blocks, reasons as comments, imports collected from what is used. */
import { comment, commentLines, docstring, lineWidth, type Import, type Py } from './literal.ts'
import { wrap } from '../text.ts'

const standardLibrary = new Set(['argparse', 'os', 'pathlib', 'sys', 'typing'])
const ownModules = new Set(['hooks', 'model', 'preflight', 'train', 'vla_runtime'])

/** 0 standard library, 1 third party, 2 the project's own: the three sections of an import block. */
function section(module: string): number {
  const root = module.split('.')[0] ?? module
  return standardLibrary.has(root) ? 0 : ownModules.has(root) ? 2 : 1
}

/** isort's order within one `from` import: CONSTANTS, Classes, functions. */
function order(name: string): number {
  if (name.length > 1 && name === name.toUpperCase()) return 0
  return /^[A-Z]/.test(name) ? 1 : 2
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** The import block of everything that is used, as ruff's isort rules (`I`) want it. */
function importBlock(imports: readonly Import[]): string {
  const sections: string[] = []
  for (const index of [0, 1, 2]) {
    const here = imports.filter((item) => section(item.module) === index)
    const whole = [...new Set(here.filter((item) => item.name === null).map((item) => item.module))].sort(byText)
    const names = new Map<string, Set<string>>()
    for (const item of here) {
      if (item.name !== null) names.set(item.module, (names.get(item.module) ?? new Set()).add(item.name))
    }
    const lines = [
      ...whole.map((module) => `import ${module}`),
      ...[...names]
        .sort(([a], [b]) => byText(a, b))
        .map(([module, set]) => {
          const sorted = [...set].sort(
            (a, b) => order(a) - order(b) || byText(a.toLowerCase(), b.toLowerCase()) || byText(a, b),
          )
          return `from ${module} import ${sorted.join(', ')}`
        }),
    ]
    if (lines.length > 0) sections.push(lines.join('\n'))
  }
  return sections.join('\n\n')
}

/** Statements at one depth. */
export class Body {
  readonly lines: string[] = []
  readonly imports: Import[] = []
  readonly depth: number

  constructor(depth: number) {
    this.depth = depth
  }

  /** One statement, with its reason: behind it where both fit on a line, else above it. */
  line(statement: Py, reason?: string): this {
    const indent = '    '.repeat(this.depth)
    const rows = statement.text.split('\n')
    const last = rows.at(-1) ?? ''
    const text = comment(reason ?? '')
    this.imports.push(...statement.imports)
    if (text !== '' && (rows.length > 1 || indent.length + last.length + 2 + text.length > lineWidth)) {
      this.note(reason ?? '')
      this.lines.push(...rows.map((row) => indent + row))
    } else {
      this.lines.push(...rows.map((row) => indent + row))
      if (text !== '') this.lines.push(`${this.lines.pop() ?? ''}  ${text}`)
    }
    return this
  }

  /** A comment on its own line or lines. */
  note(text: string): this {
    const indent = '    '.repeat(this.depth)
    this.lines.push(...commentLines(text, lineWidth - indent.length).map((row) => indent + row))
    return this
  }

  /** A block: `with ...:`, `for ...:`, `def ...:`. */
  block(head: Py, fill: (body: Body) => void, reason?: string): this {
    this.line(head, reason)
    const body = new Body(this.depth + 1)
    fill(body)
    this.lines.push(...body.lines)
    this.imports.push(...body.imports)
    return this
  }

  blank(): this {
    this.lines.push('')
    return this
  }
}

/** A whole file. */
export class Document extends Body {
  readonly #docstring: Py

  /** @param description the module's docstring; long lines are wrapped */
  constructor(description: string) {
    super(0)
    const lines = description.split('\n').flatMap((line, index) => {
      const width = lineWidth - (index === 0 ? 3 : 0)
      return line.length <= width ? [line] : wrap(line, width)
    })
    this.#docstring = docstring(lines.length === 1 ? description : `${lines.join('\n')}\n`)
  }

  /** The source, not yet formatted. */
  render(): string {
    const imports = importBlock(this.imports)
    return `${[this.#docstring.text, ...(imports === '' ? [] : [imports]), this.lines.join('\n')].join('\n\n')}\n`
  }
}
