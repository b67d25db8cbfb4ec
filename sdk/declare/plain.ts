/** Any value as plain JSON data, and how paths and values read in messages. */
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { declareFinding } from './findings.ts'

export type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain }

const nul = String.fromCharCode(0)
/** NUL, or half of a surrogate pair: under the `u` flag whole pairs are one code point and do not match. */
const unwritableText = new RegExp(`${nul}|\\p{Surrogate}`, 'u')

/** `modules.vision.lr`, `data[0].cameras['my cam']`. */
export function pathText(path: DeclarationPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${String(part)}]`
    if (!/^[A-Za-z_$][\w$]*$/.test(part)) return `${text}[${showValue(part)}]`
    return text === '' ? part : `${text}.${part}`
  }, '')
}

/** The constructor that makes a value of some `kind`. */
export function constructorOf(kind: string): string {
  if (kind === 'timm') return 'timmVision'
  return kind === 'transformers' ? 'transformersVision' : kind
}

/** A value in a message, short. */
export function showValue(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 60 ? `${value.slice(0, 57)}...` : value}'`
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function ${value.name}`
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) {
    const kind = (value as { kind?: unknown }).kind
    return typeof kind === 'string' ? `${constructorOf(kind)}(...)` : 'an object'
  }
  return String(value)
}

/** What stands at a path, or undefined. */
export function valueAt(root: unknown, path: DeclarationPath): unknown {
  return path.reduce<unknown>(
    (node, part) =>
      typeof node === 'object' && node !== null && Object.hasOwn(node, part)
        ? (node as Record<string | number, unknown>)[part]
        : undefined,
    root,
  )
}

/** The elements of a list that may be none. */
export function listAt(root: unknown, path: DeclarationPath): readonly unknown[] {
  const value = valueAt(root, path)
  return Array.isArray(value) ? (value as readonly unknown[]) : []
}

/** The keys of an object that may be none. */
export function keysAt(root: unknown, path: DeclarationPath): readonly string[] {
  const value = valueAt(root, path)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : []
}

/**
 * A copy without `undefined` and without anything that is not JSON, which becomes a finding and is left out.
 *
 * @param seen - the objects around `value`, so that a cycle ends
 */
export function toPlain(
  value: unknown,
  path: DeclarationPath,
  seen: readonly unknown[],
  findings: Finding[],
): Plain | undefined {
  if (typeof value === 'string') {
    if (!unwritableText.test(value)) return value
    findings.push(unwritable(path, 'value', value))
    return undefined
  }
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    // JSON has no -0.
    if (Number.isFinite(value)) return value === 0 ? 0 : value
    findings.push(notPlain(path, String(value), 'Write a finite number.'))
    return undefined
  }
  if (typeof value === 'object') {
    if (seen.includes(value)) {
      findings.push(notPlain(path, 'part of itself', 'A declaration is plain data, without cycles.'))
      return undefined
    }
    const inside = [...seen, value]
    if (Array.isArray(value))
      return value.map((item, index) => toPlain(item, [...path, index], inside, findings) ?? null)
    const prototype: unknown = Object.getPrototypeOf(value)
    // A plain object, also of another realm: its prototype has none.
    if (prototype === null || Object.getPrototypeOf(prototype) === null) return toRecord(value, path, inside, findings)
  }
  const fix = 'A declaration holds texts, numbers, booleans, lists and objects.'
  findings.push(notPlain(path, `${showValue(value)}, which is not plain data`, fix))
  return undefined
}

function toRecord(value: object, path: DeclarationPath, inside: readonly unknown[], findings: Finding[]): Plain {
  const copy: Record<string, Plain> = {}
  for (const [key, item] of Object.entries(value)) {
    if (unwritableText.test(key)) {
      findings.push(unwritable([...path, key], 'key', key))
      continue
    }
    const plain = item === undefined ? undefined : toPlain(item, [...path, key], inside, findings)
    if (plain === undefined) continue
    // Not an assignment, so that a key such as __proto__ stays a key.
    Object.defineProperty(copy, key, { value: plain, enumerable: true, configurable: true, writable: true })
  }
  return copy
}

function notPlain(path: DeclarationPath, what: string, fix: string): Finding {
  return declareFinding('VLA003', path, 'value', `${pathText(path) || 'The pipeline'} is ${what}.`, fix)
}

function unwritable(path: DeclarationPath, at: 'key' | 'value', text: string): Finding {
  const what = text.includes(nul) ? 'a NUL character' : 'half of a surrogate pair'
  const around = pathText(at === 'key' ? path.slice(0, -1) : path)
  const message =
    at === 'key' ? `A key of ${around || 'the pipeline'} contains ${what}.` : `${around} contains ${what}.`
  return declareFinding('VLA007', path, at, message, `Remove ${what} from it.`)
}
