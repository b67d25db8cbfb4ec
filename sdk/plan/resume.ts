/**
 * What of a plan may differ from that of the checkpoint a run resumes from.
 *
 * The list is data, `templates/runtime/vla_runtime/resume_contract.json`, which the generated project reads too: the run is the
 * authority (`vla_runtime/plans.py`), and this is the same comparison for whoever wants to know before a cluster is allocated.
 */
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { canonicalJson } from './canonical.ts'
import type { Pipeline } from './plan.ts'

const contractSchema = z.object({
  allowed: z.array(z.strictObject({ path: z.string(), rule: z.enum(['any', 'grow', 'scale']) })),
})

/** A path below `pipeline` (`*` stands for one step, named items of a list go by their name), and in which way it may change. */
export type ResumeRule = z.infer<typeof contractSchema>['allowed'][number]

export interface ResumeDifference {
  /** Dotted, below `pipeline`: `modules.vision.lr`. */
  readonly path: string
  readonly before: unknown
  readonly now: unknown
  readonly why: string
}

/** The rules, as the generated project reads them. */
export function resumeContract(): readonly ResumeRule[] {
  const file = new URL('../../templates/runtime/vla_runtime/resume_contract.json', import.meta.url)
  return contractSchema.parse(JSON.parse(readFileSync(file, 'utf8'))).allowed
}

/** What differs and may not. Empty: a run of `now` may go on from a checkpoint of `before`. */
export function resumeDifferences(
  before: Pipeline,
  now: Pipeline,
  rules: readonly ResumeRule[] = resumeContract(),
): ResumeDifference[] {
  const [old, fresh] = [leaves(before), leaves(now)]
  const updates: readonly [number, number] = [before.training.updates, now.training.updates]
  const found: ResumeDifference[] = []
  for (const path of new Set([...old.keys(), ...fresh.keys()])) {
    const [a, b] = [old.get(path), fresh.get(path)]
    if (canonicalJson({ value: a }) === canonicalJson({ value: b })) continue
    const rule = rules.find((candidate) => isBelow(path, candidate.path))
    const why = forbids(rule?.rule, a, b, updates)
    if (why !== undefined) found.push({ path, before: a, now: b, why })
  }
  return found
}

function forbids(
  rule: ResumeRule['rule'] | undefined,
  before: unknown,
  now: unknown,
  [was, is]: readonly [number, number],
): string | undefined {
  if (rule === 'any') return undefined
  const numbers = typeof before === 'number' && typeof now === 'number'
  if (rule === 'grow') return numbers && now > before ? undefined : 'may only grow'
  if (rule === 'scale') {
    return numbers && was !== is && Math.abs(now - (before * is) / was) <= 1
      ? undefined
      : 'may change only in proportion to training.updates'
  }
  return 'may not change'
}

/** The values of nested JSON by dotted path. Named items of a list go by name, and the order of such a list is a value too. */
function leaves(value: unknown, path = '', into = new Map<string, unknown>()): Map<string, unknown> {
  const pairs = items(value)
  if (pairs === undefined) return into.set(path, value)
  for (const [key, child] of pairs) leaves(child, path === '' ? key : `${path}.${key}`, into)
  return into
}

function items(value: unknown): (readonly [string, unknown])[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (!Array.isArray(value)) {
    const entries = Object.entries(value).filter(([, child]) => child !== undefined)
    return entries.length === 0 ? undefined : entries
  }
  if (value.length === 0) return undefined
  const names = value.map((item: unknown) =>
    typeof item === 'object' && item !== null && 'name' in item ? item.name : undefined,
  )
  if (!names.every((name) => typeof name === 'string') || new Set(names).size !== names.length) {
    return value.map((item: unknown, index) => [String(index), item])
  }
  return [...value.map((item: unknown, index) => [names[index] ?? '', item] as const), ['(order)', names.join(' ')]]
}

function isBelow(path: string, pattern: string): boolean {
  const [steps, wanted] = [path.split('.'), pattern.split('.')]
  return steps.length >= wanted.length && wanted.every((step, index) => step === '*' || step === steps[index])
}
