/** What must hold of every declaration, however wild. What does not comes back as sentences without the user's values. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { DeclarationPath, Finding } from '../../sdk/finding/finding.ts'
import { lockSchema, type Lock } from '../../sdk/lock/lock.ts'
import type { Plan } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { entryById } from '../../sdk/rules/index.ts'
import { runRules } from '../../sdk/rules/run.ts'
import type { Data } from './declarations.ts'
import { isContainer, spots } from './wild.ts'

export interface Case {
  readonly declaration: Data
  readonly lock: Lock | undefined
}

interface Judged {
  readonly plan: Plan | undefined
  readonly findings: readonly Finding[]
}

/** No check of one declaration takes more time of the processor, in seconds. */
const LONGEST = 5

/** Everything that reading, planning and the rules say. */
export function judge({ declaration, lock }: Case): Judged {
  const parsed = parseDeclaration(declaration)
  const resolved = resolve(parsed.declaration, lock, parsed)
  const reported = [...parsed.findings, ...resolved.findings]
  const found = resolved.plan === undefined ? [] : runRules(resolved.plan, { reported })
  return { plan: resolved.plan, findings: [...reported, ...found] }
}

/** Reading, planning and judging: nothing throws, the same twice, a valid plan, findings that say something. */
export function judgeProblems(given: Case): string[] {
  const before = process.cpuUsage()
  const { plan, findings } = judge(given)
  // Rules read the plan of a declaration with errors around its gaps, which the schema does not know.
  const isSound = findings.every(({ severity }) => severity !== 'error')
  const problems = process.cpuUsage(before).user > LONGEST * 1e6 ? ['the check takes too long'] : []
  if (!isDeepStrictEqual(findings, judge(given).findings)) problems.push('another look finds something else')
  if (plan === undefined && !findings.some(({ severity }) => severity === 'error'))
    problems.push('there is neither a plan nor an error')
  const copy: unknown = JSON.parse(JSON.stringify(plan ?? null))
  if (plan !== undefined) {
    if (!isDeepStrictEqual(copy, plan)) problems.push('the plan is no plain JSON')
    if (isSound && !isPublishedPlan(copy)) problems.push(`the plan breaks its schema: ${schemaErrors()}`)
  }
  return [...problems, ...findings.flatMap((finding) => findingProblems(finding, given))]
}

const schema = fileURLToPath(new URL('../../schemas/plan.schema.json', import.meta.url))
const isPublishedPlan = new Ajv2020({ strict: false }).compile(JSON.parse(readFileSync(schema, 'utf8')) as object)

function schemaErrors(): string {
  const [first] = isPublishedPlan.errors ?? []
  return `${(first?.instancePath ?? '').replace(/\d+/g, '#')} ${first?.message ?? ''}`
}

/** Whether the lock of a case is one that a file could hold. */
export function isLock(lock: Lock | undefined): boolean {
  return lock === undefined || lockSchema.safeParse(lock).success
}

function findingProblems(finding: Finding, { declaration, lock }: Case): string[] {
  const { id, message, why, fix, path, related, fixes } = finding
  if (entryById(id) === undefined) return [`${id}: there is no such rule`]
  const said = [message, why, fix, ...related.map(({ note }) => note), ...fixes.map(({ label }) => label)]
  const paths = [
    path,
    ...related.map((entry) => entry.path),
    ...fixes.flatMap(({ edits }) => edits.map((edit) => edit.path)),
  ]
  const removed = fixes.flatMap(({ edits }) => edits.flatMap((edit) => (edit.kind === 'set' ? [] : [edit.path])))
  const values = fixes.flatMap(({ edits }) => edits.flatMap((edit) => (edit.kind === 'set' ? [edit.value] : [])))
  return [
    ...said.flatMap((text) => textProblems(text, [declaration, lock])),
    ...paths.flatMap((each) => pathProblems(each, declaration)),
    ...removed.filter((each) => !exists(each, declaration)).map(() => 'a fix takes away what is not there'),
    ...values.filter((value) => !isJson(value)).map(() => 'a fix writes what is not JSON'),
  ].map((problem) => `${id}: ${problem}`)
}

function isJson(value: unknown): boolean {
  return value !== undefined && isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value)
}

/** Traces of values that nobody thought of, unless they are the user's own. */
const TRACES = [
  /undefined/,
  /\bNaN\b/,
  /\bInfinity\b/,
  /\[object \w+\]/,
  /\{\w*\}/,
  /\bfunction\b.*=>/,
  /\bnull\b/,
] as const

function textProblems(text: string, sources: readonly unknown[]): string[] {
  if (text.trim() === '') return ['it says nothing']
  return TRACES.flatMap((trace) => {
    const found = trace.exec(text.replaceAll('{instruction}', ''))?.[0]
    if (found === undefined || sources.some((source) => mentions(source, found))) return []
    return [
      `it says '${found}': ${text
        .replace(/'[^']*'/g, "'…'")
        .replace(/[\d.,_]+/g, '#')
        .slice(0, 120)}`,
    ]
  })
}

/** Whether the user (or the lock) has a text, a key or a value that reads like this. */
function mentions(source: unknown, text: string): boolean {
  return spots(source).some(({ owner, key }) => {
    const value = owner[key]
    const shown = typeof value === 'object' && value !== null ? '' : typeof value === 'function' ? '=>' : String(value)
    return shown.includes(text) || key.includes(text) || text.includes(`{${shown}}`)
  })
}

/** A path has a form, and leads through what has members as far as it exists. */
function pathProblems(path: DeclarationPath, declaration: unknown): string[] {
  if (!Array.isArray(path)) return ['it has no path']
  if (path.some((step) => typeof step !== 'string' && !(Number.isInteger(step) && Number(step) >= 0)))
    return ['its path has a step that is no key']
  let value: unknown = declaration
  for (const step of path as DeclarationPath) {
    if (value === undefined) return []
    if (!isContainer(value)) return ['its path leads through a value without members']
    if (Array.isArray(value) !== (typeof step === 'number')) return ['its path mixes lists and objects']
    value = Object.hasOwn(value, step) ? value[step] : undefined
  }
  return []
}

/** Whether something stands at a path. */
export function exists(path: DeclarationPath, declaration: unknown): boolean {
  let value: unknown = declaration
  for (const step of path) {
    if (!isContainer(value) || !Object.hasOwn(value, step)) return false
    value = value[step]
  }
  return value !== undefined
}
