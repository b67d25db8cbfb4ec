/** Single changes of a pipeline. */
import { copyOf } from '../fuzz/wild.ts'
import type { Base } from './bases.ts'
import type { Path } from './facts.ts'

/** A pipeline with one mistake. */
export interface Mutant {
  readonly base: string
  /** What was changed, for people. */
  readonly what: string
  readonly declaration: unknown
  readonly lock: Base['lock']
  /** Why its run fails, is silently wrong, or wastes time or quality; null: it is a run that somebody may want. */
  readonly condemned: string | null
}

/** Stands for a value that is taken away. */
export const GONE: unique symbol = Symbol('gone')

export type Change = readonly [path: Path, value: unknown]

/** The base with another value at each path; paths that begin with 'lock' change the lock. */
export function mutant(base: Base, condemned: string | null, ...changes: readonly Change[]): Mutant {
  const roots = { declaration: copyOf<unknown>(base.declaration), lock: structuredClone(base.lock) }
  for (const [path, value] of changes) {
    const inLock = path[0] === 'lock'
    put(inLock ? roots.lock : roots.declaration, inLock ? path.slice(1) : path, value)
  }
  return { base: base.name, what: changes.map(shown).join(', '), ...roots, condemned }
}

function put(root: unknown, path: Path, value: unknown): void {
  let owner = root as Record<string | number, unknown>
  for (const step of path.slice(0, -1)) {
    if (typeof owner[step] !== 'object' || owner[step] === null) owner[step] = {}
    owner = owner[step] as Record<string | number, unknown>
  }
  const key = path.at(-1) ?? ''
  if (value === GONE) Reflect.deleteProperty(owner, key)
  else owner[key] = value
}

function shown([path, value]: Change): string {
  return `${path.join('.')}: ${value === GONE ? 'left out' : JSON.stringify(value).slice(0, 60)}`
}
