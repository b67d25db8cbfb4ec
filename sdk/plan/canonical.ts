/**
 * Canonical JSON (the rules of RFC 8785): keys sorted by UTF-16 code unit, numbers in ECMAScript's shortest form, no spaces.
 * Two values that mean the same give the same bytes, whatever the order in which somebody wrote the keys.
 */
import { createHash } from 'node:crypto'

const indent = 2
const width = 120

/**
 * The canonical form of plain data. Properties that are `undefined` are left out, as in JSON.
 *
 * @throws {TypeError} for what JSON cannot hold (NaN, infinities, functions): such a value in a Plan is a bug of ours.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (isObject(value))
    return `{${entries(value)
      .map(([key, child]) => `${JSON.stringify(key)}:${canonicalJson(child)}`)
      .join(',')}}`
  return scalar(value)
}

/** The canonical order and numbers, laid out for people: what fits on a line stands on one line. Ends with a newline. */
export function canonicalFile(value: unknown): string {
  return `${layOut(value, 0, 0)}\n`
}

/** sha256 over the canonical form, as lower-case hexadecimal. */
export function canonicalHash(value: unknown): string {
  return sha256(canonicalJson(value))
}

/** sha256 of text (as UTF-8) or bytes, as lower-case hexadecimal. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex')
}

function layOut(value: unknown, level: number, column: number): string {
  if (typeof value !== 'object' || value === null) return scalar(value)
  const line = oneLine(value, width - column)
  if (line !== undefined) return line
  const inner = ' '.repeat((level + 1) * indent)
  const outer = ' '.repeat(level * indent)
  if (Array.isArray(value)) {
    const rows = value.map((child) => inner + layOut(child, level + 1, inner.length + 1))
    return `[\n${rows.join(',\n')}\n${outer}]`
  }
  const rows = entries(value as Record<string, unknown>).map(([key, child]) => {
    const head = `${inner}${JSON.stringify(key)}: `
    return head + layOut(child, level + 1, head.length + 1)
  })
  return `{\n${rows.join(',\n')}\n${outer}}`
}

/** The value on one line, or undefined as soon as it turns out longer than `room`. */
function oneLine(value: unknown, room: number): string | undefined {
  if (room < 0) return undefined
  let text: string
  if (Array.isArray(value)) {
    const parts = lineParts(
      value.map((child) => ['', child]),
      room - 2,
    )
    text = parts === undefined ? '' : `[${parts.join(', ')}]`
  } else if (isObject(value)) {
    const named = entries(value).map(([key, child]): [string, unknown] => [`${JSON.stringify(key)}: `, child])
    const parts = lineParts(named, room - 4)
    text = parts === undefined ? '' : parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`
  } else text = scalar(value)
  return text === '' || text.length > room ? undefined : text
}

function lineParts(children: readonly (readonly [string, unknown])[], room: number): string[] | undefined {
  const parts: string[] = []
  let left = room
  for (const [head, child] of children) {
    const text = oneLine(child, left - head.length)
    if (text === undefined) return undefined
    parts.push(head + text)
    left -= head.length + text.length + 2
  }
  return parts
}

function scalar(value: unknown): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  throw new TypeError(`canonical JSON cannot hold ${typeof value === 'number' ? String(value) : `a ${typeof value}`}`)
}

function entries(value: Record<string, unknown>): [string, unknown][] {
  return Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort()
    .map((key) => [key, value[key]])
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
