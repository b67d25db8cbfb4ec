/** The text of a pipeline.ts whose default export is a given value: literals, calls of the constructors, constants and spreads. */
import * as vla from '../../sdk/index.ts'
import { CONSTRUCTOR_OF_KIND, CONSTRUCTORS } from '../../sdk/locate/constructors.ts'
import type { Data } from './declarations.ts'
import type { Draw } from './draw.ts'
import { isContainer } from './wild.ts'

export const VOCABULARY = Object.keys(vla)

export interface Printed {
  readonly text: string
  /** Constants that stand before the export, by name: what an identifier in the text means. */
  readonly constants: string
}

export function printPipeline(declaration: Data, d: Draw): Printed {
  const constants: string[] = []
  const constant = (code: string): string => {
    const name = `part${String(constants.length)}`
    constants.push(`const ${name} = ${code}`)
    return name
  }
  const fields = printFields(declaration, '', d, constant)
  const head = constants.join('\n')
  const text = `import { ${VOCABULARY.join(', ')} } from 'vla-pipeline'\n\n${head}\n\nexport default defineVLAPipeline({${fields}})\n`
  return { text, constants: head }
}

type Constant = (code: string) => string

function print(value: unknown, indent: string, d: Draw, constant: Constant): string {
  if (!isContainer(value)) return printLeaf(value)
  const code = printContainer(value, indent, d, constant)
  return d.chance(0.04) ? constant(code) : code
}

function printContainer(value: Data, indent: string, d: Draw, constant: Constant): string {
  if (Array.isArray(value)) {
    const items = (value as readonly unknown[]).map((item) => print(item, `${indent}  `, d, constant))
    return `[${items.join(', ')}]`
  }
  const call =
    Object.getPrototypeOf(value) === null || d.chance(0.1) ? undefined : printCall(value, indent, d, constant)
  if (call !== undefined) return call
  if (d.chance(0.03) && !Object.hasOwn(value, '__proto__'))
    return `{ ...${constant(`{${printFields(value, indent, d, constant)}}`)} }`
  return `{${printFields(value, indent, d, constant)}}`
}

function printFields(value: Data, indent: string, d: Draw, constant: Constant): string {
  const inner = `${indent}  `
  const lines = Object.entries(value).map(
    ([key, item]) => `\n${inner}${printKey(key, d)}: ${print(item, inner, d, constant)},`,
  )
  return lines.length === 0 ? '' : `${lines.join('')}\n${indent}`
}

/** `__proto__: x` sets the prototype, so that this key is computed. */
function printKey(key: string, d: Draw): string {
  if (key === '__proto__') return `['__proto__']`
  return /^[A-Za-z_$][\w$]*$/.test(key) && d.chance(0.9) ? key : JSON.stringify(key)
}

/** The constructor that makes the value, where its arguments can say all of it. */
function printCall({ kind, ...fields }: Data, indent: string, d: Draw, constant: Constant): string | undefined {
  if (typeof kind !== 'string') return undefined
  const name = Object.hasOwn(CONSTRUCTOR_OF_KIND, kind) ? CONSTRUCTOR_OF_KIND[kind] : kind
  const signature = name !== undefined && Object.hasOwn(CONSTRUCTORS, name) ? CONSTRUCTORS[name] : undefined
  if (name === undefined || signature === undefined) return undefined
  const left: Data = { ...fields }
  const args: string[] = []
  for (const argument of signature) {
    const field = typeof argument === 'string' ? argument : argument[0]
    if (field === '*') continue
    const isPositional = Object.hasOwn(left, field) && (typeof argument === 'string' || typeof left[field] === 'string')
    if (!isPositional && typeof argument === 'string') return undefined
    if (!isPositional) continue
    args.push(print(left[field], indent, d, constant))
    Reflect.deleteProperty(left, field)
  }
  const hasOptions = signature.some((argument) => argument === '*' || typeof argument !== 'string')
  if (!hasOptions) return Object.keys(left).length === 0 ? `${name}(${args.join(', ')})` : undefined
  if (Object.keys(left).length > 0) args.push(`{${printFields(left, indent, d, constant)}}`)
  // Without any argument some constructors have nothing to spread, which is the same; causalLM(undefined) is not.
  return args.length === 0 && name === 'causalLM' ? undefined : `${name}(${args.join(', ')})`
}

function printLeaf(value: unknown): string {
  if (typeof value === 'string') return printText(value)
  if (typeof value === 'bigint') return `${String(value)}n`
  if (typeof value === 'symbol') return `Symbol('s')`
  if (typeof value === 'function') return '(x) => x'
  if (value instanceof Date) return 'new Date(0)'
  if (value instanceof Map) return 'new Map()'
  if (value instanceof Set) return 'new Set()'
  if (value instanceof RegExp) return '/x/'
  if (Object.is(value, -0)) return '-0'
  return String(value)
}

/** Half a surrogate pair has to be escaped, since a file cannot hold it. */
function printText(text: string): string {
  return JSON.stringify(text).replace(/[\u2028\u2029]/g, (separator) =>
    separator === '\u2028' ? '\\u2028' : '\\u2029',
  )
}
