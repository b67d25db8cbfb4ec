/** Reads a value as a declaration. Everything that is wrong with it comes back as findings, all at once; nothing throws. */
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { declareFinding } from './findings.ts'
import { errorMap, issueFindings } from './issues.ts'
import { nameFindings } from './names.ts'
import { declarationSchema, type Declaration } from './pipeline.ts'
import { showValue, toPlain, valueAt, type Plain } from './plain.ts'

export interface Parsed {
  /** The declaration, as far as it can be read: broken optional parts are left out. Absent where a required part is broken. */
  readonly declaration?: Declaration
  readonly findings: Finding[]
  /** What was left out of `declaration`. A later finding about these paths has its cause here. */
  readonly broken: DeclarationPath[]
}

/** Takes the node at a path out of `root`, or its nearest ancestor that is the value of a key. Returns the path of what is gone. */
function prune(root: Plain, path: DeclarationPath): DeclarationPath | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = path[length - 1]
    const parent = valueAt(root, path.slice(0, length - 1))
    if (typeof key !== 'string' || typeof parent !== 'object' || parent === null || !Object.hasOwn(parent, key))
      continue
    Reflect.deleteProperty(parent, key)
    return path.slice(0, length)
  }
  return undefined
}

/** Whether `path` is `around` or lies within it. */
function within(path: DeclarationPath, around: DeclarationPath): boolean {
  return around.length <= path.length && around.every((part, index) => part === path[index])
}

/** Reads as much as can be read: what is broken is taken out until the rest is well-formed or a required part is gone. */
function readDeclaration(root: Plain): Parsed {
  const broken: DeclarationPath[] = []
  let findings: Finding[] | undefined
  for (;;) {
    const result = declarationSchema.safeParse(root, { error: errorMap })
    if (result.success) return { declaration: result.data, findings: findings ?? [], broken }
    const found = issueFindings(result.error.issues, root)
    findings ??= found // later rounds only miss what this one takes out
    const gone: DeclarationPath[] = []
    let stuck = found.length === 0
    for (const { path } of found) {
      if (gone.some((around) => within(path, around))) continue
      const removed = prune(root, path)
      if (removed === undefined) stuck = true
      else gone.push(removed)
    }
    broken.push(...gone)
    if (stuck) return { findings, broken }
  }
}

/** Reads a value, usually the default export of pipeline.ts, as a declaration. */
export function parseDeclaration(value: unknown): Parsed {
  const findings: Finding[] = []
  const plain = toPlain(value, [], [], findings)
  if (typeof plain !== 'object' || plain === null || Array.isArray(plain)) {
    const message = `The pipeline is ${showValue(value)}.`
    return {
      findings: [declareFinding('VLA003', [], 'value', message, 'Export default defineVLAPipeline({ ... }).')],
      broken: [[]],
    }
  }
  // A config holds any JSON: what stands in a list for an item that is none would be read as the user's own.
  for (const { path } of findings) {
    const list = path.findIndex((step) => typeof step === 'number')
    if (list > 0 && path.slice(0, list).includes('config')) prune(plain, path.slice(0, list))
  }
  // Names first: reading takes apart what is broken.
  const names = nameFindings(plain)
  const unreadable = findings.map(({ path }) => path)
  // An option that nobody reads says nothing to the plan either.
  const unread = names.flatMap(({ id, path }) => (id === 'VLA002' && prune(plain, path) !== undefined ? [path] : []))
  const read = readDeclaration(plain)
  const broken = [...unreadable, ...unread, ...read.broken]
  // What toPlain took out has its finding already, and a broken node says nothing about the names inside it.
  const fresh = read.findings.filter(({ path }) => !unreadable.some((cut) => within(path, cut)))
  const all = [...findings, ...fresh, ...names]
  return read.declaration === undefined
    ? { findings: all, broken }
    : { declaration: read.declaration, findings: all, broken }
}
