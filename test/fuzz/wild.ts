/** What no sensible person writes, put somewhere into a declaration. */
import type { Draw } from './draw.ts'
import type { Data } from './declarations.ts'

const cycle: Data = {}
cycle['self'] = cycle

const TEXTS = [
  ...['', ' ', 'a', '模型', '👍🏽', '\u202Eabc', 'e\u0301', '\0', '\uD800', '\n', "it's", '"', '\\', '${x}', '`', '*/'],
  ...[
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '75%',
    '101%',
    '0%',
    '1e3',
    '-1',
    'true',
    'null',
    'NaN',
  ],
  ...[
    '{instruction}',
    '{x}',
    '{instruction}{instruction}',
    '..',
    '../..',
    '/etc/passwd',
    'a b',
    'C:\\data',
    'x'.repeat(5_000),
  ],
  ...[
    'constant',
    'lora',
    'VLA101',
    'undefined',
    'hf_abcdefghijklmnopqrstuvwxyzabcdefgh',
    'observation.state',
    'action',
  ],
] as const
const NUMBERS = [
  ...[0, -0, 1, -1, 0.5, 2, 3, 7, 13, 1e-320, 1e-9, 1_000_000, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 53 + 2, 1e21, 1e308],
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
] as const
const OTHERS: readonly unknown[] = [
  ...[null, undefined, true, false, [], [[]], [null], {}, { kind: 'x' }, { kind: 'lora' }, { kind: null }, { 0: 1 }],
  ...[[1, 2, 3], ['a', 'a'], { unknown: true, because: 'VLA003' }, JSON.parse('{"__proto__": {"lr": 1}}') as unknown],
  ...[
    10n,
    Symbol('s'),
    new Date(0),
    new Map(),
    new Set(),
    /x/,
    cycle,
    (x: unknown) => x,
    Object.create(null) as unknown,
  ],
]
const KEYS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  ' ',
  'a b',
  '模型',
  'kind',
  '0',
  'length',
  '\uD800',
] as const

function wildValue(d: Draw): unknown {
  switch (d.pick(['text', 'number', 'other'])) {
    case 'text':
      return d.pick(TEXTS)
    case 'number':
      return d.pick(NUMBERS)
    default:
      return copyOf(d.pick(OTHERS))
  }
}

/** A list or plain object, and the key under which it lies in another one. */
interface Spot {
  readonly owner: Data
  readonly key: string
}

/** Every value inside, by its owner. What is no plain data is a leaf. */
export function spots(value: unknown, seen: readonly unknown[] = []): Spot[] {
  if (!isContainer(value) || seen.includes(value)) return []
  return Object.keys(value).flatMap((key) => [{ owner: value, key }, ...spots(value[key], [...seen, value])])
}

export function isContainer(value: unknown): value is Data {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null
}

/** Whether a list or plain object contains itself somewhere: no text of a file says that. */
export function isCyclic(value: unknown, around: readonly unknown[] = []): boolean {
  if (!isContainer(value)) return false
  if (around.includes(value)) return true
  return Object.values(value).some((item) => isCyclic(item, [...around, value]))
}

/** A copy of its lists and plain objects; everything else is itself. */
export function copyOf<T>(value: T, seen: readonly unknown[] = []): T {
  if (!isContainer(value) || seen.includes(value)) return value
  const copy: Data = (Array.isArray(value) ? [] : {}) as Data
  for (const key of Object.keys(value)) put(copy, key, copyOf(value[key], [...seen, value]))
  return copy as T
}

/** Not an assignment, so that a key such as __proto__ stays a key. */
function put(owner: Data, key: string, value: unknown): void {
  Object.defineProperty(owner, key, { value, enumerable: true, configurable: true, writable: true })
}

/** Changes one place, in place. */
export function disturb(declaration: Data, d: Draw): void {
  const all = spots(declaration)
  if (all.length === 0) return
  const { owner, key } = d.pick(all)
  const value = owner[key]
  switch (
    d.pick(['replace', 'replace', 'remove', 'add', 'rename', 'copy', 'swap', 'scale', 'scale', 'wrap', 'repeat'])
  ) {
    case 'replace':
      put(owner, key, wildValue(d))
      return
    case 'remove':
      if (Array.isArray(owner)) owner.splice(Number(key), 1)
      else Reflect.deleteProperty(owner, key)
      return
    case 'add': {
      const into = isContainer(value) && !Array.isArray(value) ? value : owner
      if (!Array.isArray(into)) put(into, d.chance(0.5) ? d.pick(KEYS) : `${key}s`, wildValue(d))
      return
    }
    case 'rename':
      if (Array.isArray(owner)) return
      Reflect.deleteProperty(owner, key)
      put(
        owner,
        d.pick([key.toUpperCase(), `${key.slice(1)}${key.slice(0, 1)}`, key.slice(0, -1), d.pick(KEYS)]),
        value,
      )
      return
    case 'copy': {
      const other = d.pick(all)
      put(owner, key, copyOf(other.owner[other.key]))
      return
    }
    case 'swap': {
      const other = d.pick(Object.keys(owner))
      const taken = owner[other]
      put(owner, other, value)
      put(owner, key, taken)
      return
    }
    case 'scale':
      if (typeof value !== 'number') return
      put(
        owner,
        key,
        d.pick([value * 10, value * 1_000, value * 1e9, value / 10, -value, value + 0.5, value + 1, String(value)]),
      )
      return
    case 'wrap':
      put(owner, key, d.chance(0.5) ? [value] : { value })
      return
    case 'repeat':
      if (Array.isArray(value) && value.length > 0) value.push(copyOf(d.pick(value as readonly unknown[])))
      return
  }
}
