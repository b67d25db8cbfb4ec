/**
 * Reading a Plan whose declaration has errors.
 *
 * Such a Plan has `unknown` nodes where its types promise a value. Whoever reads it through `guardPlan` gets an `UnknownRead` at
 * the moment a broken node is used, so that a rule which needs the value stops and every other rule runs. Nodes that the schema
 * itself lets be unknown are handed out as they are: readers ask `isKnown` there.
 */
import type * as z from 'zod'
import { isKnown, pipeline as pipelineSchema, type Plan, type Unknown } from './plan.ts'

/** A value was used that the declaration leaves open. Caught by the rules runner; never reaches a user. */
export class UnknownRead extends Error {
  readonly because: string

  constructor(because: string) {
    super(`the plan does not know this value: ${because}`)
    this.name = 'UnknownRead'
    this.because = because
  }
}

/** The same Plan; using a node that is unknown against its type throws `UnknownRead`. */
export function guardPlan(plan: Plan): Plan {
  const broken = brokenNodes(plan.pipeline)
  return broken.size === 0 ? plan : { ...plan, pipeline: guard(plan.pipeline, broken) }
}

/** The nodes that are unknown although the schema promises a value; empty for a declaration without errors. */
export function brokenNodes(pipeline: Plan['pipeline']): Map<Unknown, PropertyKey[]> {
  const broken = new Map<Unknown, PropertyKey[]>()
  const parsed = pipelineSchema.safeParse(pipeline)
  if (parsed.success) return broken
  for (const path of paths(parsed.error.issues)) {
    const steps: PropertyKey[] = []
    let value: unknown = pipeline
    for (const step of path) {
      if (!isKnown(value)) break
      if (typeof value !== 'object' || value === null) break
      value = (value as Record<PropertyKey, unknown>)[step]
      steps.push(step)
    }
    if (!isKnown(value)) broken.set(value, steps)
    // Where the kind of a node is broken, the schema has looked at nothing else in it.
    for (const [unknown, inside] of unknownBelow(valueAround(pipeline, steps))) broken.set(unknown, inside)
  }
  return broken
}

/** The node whose kind stands at `steps`, with its place; nothing where something else stands there. */
function valueAround(
  pipeline: unknown,
  steps: readonly PropertyKey[],
): [value: unknown, steps: readonly PropertyKey[]] {
  if (steps.at(-1) !== 'kind') return [undefined, []]
  const around = steps.slice(0, -1)
  return [around.reduce((value, step) => (value as Record<PropertyKey, unknown>)[step], pipeline), around]
}

function unknownBelow([value, steps]: readonly [unknown, readonly PropertyKey[]]): [Unknown, PropertyKey[]][] {
  if (!isKnown(value)) return [[value, [...steps]]]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => unknownBelow([inner, [...steps, key]]))
}

/** The paths of all issues, those inside unions included. */
function paths(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): PropertyKey[][] {
  return issues.flatMap((issue) => {
    const path = [...base, ...issue.path]
    return issue.code === 'invalid_union' ? [path, ...issue.errors.flatMap((inner) => paths(inner, path))] : [path]
  })
}

function guard<T extends object>(node: T, broken: ReadonlyMap<Unknown, PropertyKey[]>): T {
  return new Proxy(node, {
    get(target, key, receiver): unknown {
      const value: unknown = Reflect.get(target, key, receiver)
      if (typeof value !== 'object' || value === null) return value
      if (broken.has(value as Unknown)) throw new UnknownRead((value as Unknown).because)
      return guard(value, broken)
    },
  })
}
