/** Reads a value as a declaration. Everything that is wrong with it comes back as findings, all at once; nothing throws. */
import type * as z from 'zod'

import { gpuNames } from '../catalog/gpus.ts'
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { declareFinding } from './findings.ts'
import { cameraNames, moduleNames } from './model.ts'
import { declarationSchema, type Declaration } from './pipeline.ts'
import { suggest } from './suggest.ts'

export interface Parsed {
  /** The declaration, as far as it can be read: broken optional parts are left out. Absent where a required part is broken. */
  readonly declaration?: Declaration
  readonly findings: Finding[]
  /** What was left out of `declaration`. A later finding about these paths has its cause here. */
  readonly broken: DeclarationPath[]
}

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain }
type Issue = z.core.$ZodIssue

const nul = String.fromCharCode(0)
/** NUL, or half of a surrogate pair: under the `u` flag whole pairs are one code point and do not match. */
const unwritableText = new RegExp(`${nul}|\\p{Surrogate}`, 'u')

/** `modules.vision.lr`, `data[0].cameras['my cam']`. */
export function pathText(path: DeclarationPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${String(part)}]`
    if (!/^[A-Za-z_$][\w$]*$/.test(part)) return `${text}[${show(part)}]`
    return text === '' ? part : `${text}.${part}`
  }, '')
}

/** A value in a message, short. */
function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.length > 60 ? `${value.slice(0, 57)}...` : value}'`
  if (typeof value === 'function') return value.name === '' ? 'a function' : `the function ${value.name}`
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) {
    const kind = (value as { kind?: unknown }).kind
    return typeof kind === 'string' ? `${kind}(...)` : 'an object'
  }
  return String(value)
}

/** A copy without undefined and without anything that is not JSON, which becomes a finding and is left out. */
function toPlain(
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
    if (Number.isFinite(value)) return value
    findings.push(wrong(path, `${pathText(path)} is ${String(value)}.`, 'Write a finite number.'))
    return undefined
  }
  if (typeof value === 'object') {
    if (seen.includes(value)) {
      findings.push(wrong(path, `${pathText(path)} contains itself.`, 'A declaration is plain data, without cycles.'))
      return undefined
    }
    const inside = [...seen, value]
    if (Array.isArray(value))
      return value.map((item, index) => toPlain(item, [...path, index], inside, findings) ?? null)
    const prototype: unknown = Object.getPrototypeOf(value)
    // A plain object of another realm has a prototype whose own prototype is null.
    if (prototype === null || Object.getPrototypeOf(prototype) === null) {
      const copy: Record<string, Plain> = {}
      for (const [key, item] of Object.entries(value)) {
        if (unwritableText.test(key)) {
          findings.push(unwritable([...path, key], 'key', key))
          continue
        }
        const plain = item === undefined ? undefined : toPlain(item, [...path, key], inside, findings)
        // defineProperty, so that a key such as __proto__ stays a key.
        if (plain !== undefined)
          Object.defineProperty(copy, key, { value: plain, enumerable: true, configurable: true, writable: true })
      }
      return copy
    }
  }
  findings.push(
    wrong(
      path,
      `${pathText(path)} is ${show(value)}, which is not plain data.`,
      'A declaration holds strings, numbers, booleans, lists and objects.',
    ),
  )
  return undefined
}

function wrong(path: DeclarationPath, message: string, fix: string): Finding {
  return declareFinding('VLA003', path, 'value', message, fix)
}

function unwritable(path: DeclarationPath, at: 'key' | 'value', text: string): Finding {
  const what = text.includes(nul) ? 'a NUL character' : 'half of a surrogate pair'
  return declareFinding(
    'VLA007',
    path,
    at,
    `${at === 'key' ? 'A key' : 'The text'} at ${pathText(path.slice(0, at === 'key' ? -1 : undefined)) || 'the top'} contains ${what}.`,
    `Remove ${what} from it.`,
  )
}

function valueAt(root: unknown, path: DeclarationPath): unknown {
  return path.reduce<unknown>(
    (node, part) =>
      typeof node === 'object' && node !== null ? (node as Record<string | number, unknown>)[part] : undefined,
    root,
  )
}

/** The branch of a union that the user most likely meant: the one that got deepest, then the one with the fewest complaints. */
function likelyBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const atRoot = (issues: readonly Issue[]): boolean =>
    issues.some((issue) => issue.path.length === 0 && issue.code !== 'unrecognized_keys')
  const candidates = branches.filter((issues) => issues.length > 0 && !atRoot(issues))
  return [...candidates].sort((a, b) => a.length - b.length)[0]
}

const plural: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
}

/** What a schema wanted, in words. */
function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return plural[issue.expected] ?? issue.expected
    case 'invalid_value':
      return issue.values.map((value) => show(value)).join(' or ')
    case 'too_small':
      if (issue.origin === 'string') return 'a text that is not empty'
      if (issue.origin === 'array') return `a list of at least ${String(issue.minimum)}`
      return issue.inclusive === true ? `at least ${String(issue.minimum)}` : `more than ${String(issue.minimum)}`
    case 'too_big':
      if (issue.origin === 'array') return `a list of at most ${String(issue.maximum)}`
      return issue.inclusive === true ? `at most ${String(issue.maximum)}` : `less than ${String(issue.maximum)}`
    default:
      return issue.message.replace(/^expected /, '')
  }
}

/** Turns one zod issue into findings. `root` is the whole value, `base` the path of the schema that raised it. */
function fromIssue(issue: Issue, root: unknown, base: DeclarationPath): Finding[] {
  const path = [...base, ...(issue.path as (string | number)[])]
  const value = valueAt(root, path)
  if (issue.code === 'unrecognized_keys') {
    const allowed = issue.message.split(' ')
    const taken = Object.keys(value as object)
    const free = allowed.filter((name) => !taken.includes(name))
    return issue.keys.map((key) => {
      const meant = suggest(key, free)
      return declareFinding(
        'VLA002',
        [...path, key],
        'key',
        `${path.length === 0 ? 'A pipeline' : pathText(path)} has no option '${key}'.`,
        meant === undefined
          ? `Remove it, or use one of ${free.map((name) => `'${name}'`).join(', ')}.`
          : `Did you mean '${meant}'?`,
        meant === undefined
          ? undefined
          : {
              label: `Rename '${key}' to '${meant}'`,
              kind: 'safe',
              edits: [{ kind: 'renameKey', path: [...path, key], to: meant }],
            },
      )
    })
  }
  if (issue.code === 'invalid_key') {
    return [
      declareFinding(
        'VLA003',
        path,
        'key',
        `${show(path.at(-1))} is not a rule's id.`,
        "Write the id of a rule, such as 'VLA101'.",
      ),
    ]
  }
  if (issue.code === 'invalid_union' && value !== undefined) {
    const branch = likelyBranch(issue.errors)
    if (branch !== undefined) return branch.flatMap((inner) => fromIssue(inner, root, path))
    const options = [
      ...new Set(
        issue.errors
          .flat()
          .filter((inner) => inner.path.length === 0)
          .map(expectation),
      ),
    ]
    return [
      wrong(
        path,
        `${pathText(path) || 'The pipeline'} is ${show(value)}.`,
        `Expected ${options.join(', or ') || 'one of the constructors of the vocabulary'}.`,
      ),
    ]
  }
  if (value === undefined) {
    const place = pathText(path.slice(0, -1))
    return [
      declareFinding(
        'VLA004',
        path,
        'value',
        `${place === '' ? 'The pipeline' : place} has no '${String(path.at(-1) ?? 'pipeline')}'.`,
        `Add '${String(path.at(-1))}'.`,
      ),
    ]
  }
  return [wrong(path, `${pathText(path) || 'The pipeline'} is ${show(value)}.`, `Expected ${expectation(issue)}.`)]
}

/** For unknown keys the message carries the known ones: zod's issue does not. */
const errorMap: z.core.$ZodErrorMap = (issue) => {
  if (issue.code !== 'unrecognized_keys') return undefined
  const shape = (issue.inst as { _zod: { def: { shape?: object } } } | undefined)?._zod.def.shape
  return Object.keys(shape ?? {})
    .filter((key) => key !== 'kind')
    .join(' ')
}

/** Takes the broken node of an issue out of `root`, or its nearest ancestor that is held by an object. False where nothing is left. */
function prune(root: Plain, path: DeclarationPath): DeclarationPath | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = path[length - 1]
    const parent = valueAt(root, path.slice(0, length - 1))
    if (typeof key !== 'string' || typeof parent !== 'object' || parent === null || Array.isArray(parent)) continue
    if (!(key in parent)) continue
    Reflect.deleteProperty(parent, key)
    return path.slice(0, length)
  }
  return undefined
}

function readDeclaration(root: Plain): { declaration?: Declaration; findings: Finding[]; broken: DeclarationPath[] } {
  const broken: DeclarationPath[] = []
  let findings: Finding[] | undefined
  for (;;) {
    const result = declarationSchema.safeParse(root, { error: errorMap })
    if (result.success) return { declaration: result.data, findings: findings ?? [], broken }
    const found = result.error.issues.flatMap((issue) => fromIssue(issue, root, []))
    findings ??= found // later rounds only see what earlier ones took out
    for (const { path } of found) {
      const removed = prune(root, path)
      if (removed === undefined || removed.length === 0) return { findings, broken }
      broken.push(removed)
    }
    if (found.length === 0) return { findings, broken }
  }
}

function unknownKeys(
  id: 'VLA001' | 'VLA006',
  path: DeclarationPath,
  written: object,
  names: readonly string[],
  what: string,
): Finding[] {
  const free = names.filter((name) => !(name in written))
  return Object.keys(written)
    .filter((key) => !names.includes(key))
    .map((key) => {
      const meant = suggest(key, free)
      return declareFinding(
        id,
        [...path, key],
        'key',
        `This model has no ${what} '${key}'; it has ${names.map((name) => `'${name}'`).join(', ')}.`,
        meant === undefined ? `Use one of these names.` : `Did you mean '${meant}'?`,
        meant === undefined
          ? undefined
          : {
              label: `Rename '${key}' to '${meant}'`,
              kind: 'safe',
              edits: [{ kind: 'renameKey', path: [...path, key], to: meant }],
            },
      )
    })
}

/** What the schemas cannot see: names that other parts of the declaration define. */
function crossChecks(declaration: Declaration): Finding[] {
  const { name, model, data, cameras, modules, hardware } = declaration
  const findings: Finding[] = []
  if (!/^[a-z0-9][a-z0-9-]*$/.test(name)) {
    const better = name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-+|-+$/g, '')
    findings.push(
      declareFinding(
        'VLA008',
        ['name'],
        'value',
        `The name '${name}' is not allowed.`,
        `Use small letters, digits and hyphens${better === '' ? '' : `: '${better}'`}.`,
        better === ''
          ? undefined
          : {
              label: `Rename to '${better}'`,
              kind: 'suggestion',
              edits: [{ kind: 'set', path: ['name'], value: better }],
            },
      ),
    )
  }
  if (model.kind === 'composed') {
    model.cameras.forEach((camera, index) => {
      if (!/^[A-Za-z_]\w*$/.test(camera)) {
        findings.push(
          declareFinding(
            'VLA008',
            ['model', 'cameras', index],
            'value',
            `The camera name '${camera}' is not allowed.`,
            'Use letters, digits and underscores, beginning with a letter.',
          ),
        )
      } else if (model.cameras.indexOf(camera) !== index) {
        findings.push(
          declareFinding(
            'VLA008',
            ['model', 'cameras', index],
            'value',
            `The camera '${camera}' is listed twice.`,
            'Give each camera slot its own name.',
          ),
        )
      }
    })
  }
  findings.push(...unknownKeys('VLA001', ['modules'], modules ?? {}, moduleNames(model), 'module'))
  const slots = cameraNames(model)
  findings.push(...unknownKeys('VLA006', ['cameras'], cameras ?? {}, slots, 'camera'))
  if (Array.isArray(data)) {
    data.forEach((entry: { cameras?: object }, index) =>
      findings.push(...unknownKeys('VLA006', ['data', index, 'cameras'], entry.cameras ?? {}, slots, 'camera')),
    )
  }
  if (hardware.kind === 'gpus' && !gpuNames.includes(hardware.gpu)) {
    const near = gpuNames.filter((known) => known.toLowerCase().includes(hardware.gpu.toLowerCase()))
    const meant = suggest(hardware.gpu, gpuNames) ?? (near.length === 1 ? near[0] : undefined)
    findings.push(
      declareFinding(
        'VLA005',
        ['hardware', 'gpu'],
        'value',
        `The catalog has no GPU '${hardware.gpu}'.`,
        meant === undefined
          ? `Use one of ${(near.length > 0 ? near : gpuNames).join(', ')}.`
          : `Did you mean '${meant}'?`,
        meant === undefined
          ? undefined
          : {
              label: `Use '${meant}'`,
              kind: 'suggestion',
              edits: [{ kind: 'set', path: ['hardware', 'gpu'], value: meant }],
            },
      ),
    )
  }
  return findings
}

/** Reads a value, usually the default export of pipeline.ts, as a declaration. */
export function parseDeclaration(value: unknown): Parsed {
  const findings: Finding[] = []
  const plain = toPlain(value, [], [], findings)
  if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) {
    findings.push(wrong([], `The pipeline is ${show(value)}.`, 'Export default defineVLAPipeline({ ... }).'))
    return { findings, broken: [[]] }
  }
  const unreadable = findings.map((finding) => finding.path)
  const read = readDeclaration(plain)
  // What toPlain took out is not missing: it has its finding already.
  findings.push(
    ...read.findings.filter(
      ({ path }) =>
        !unreadable.some((cut) => cut.length <= path.length && cut.every((part, index) => part === path[index])),
    ),
  )
  const broken = [...unreadable, ...read.broken]
  if (read.declaration === undefined) return { findings, broken }
  findings.push(...crossChecks(read.declaration))
  return { declaration: read.declaration, findings, broken }
}
