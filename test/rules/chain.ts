/** Sends declaration texts through the real chain: pipeline.ts -> declaration -> plan -> findings. */
import * as z from 'zod'
import ts from 'typescript'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { Finding } from '../../sdk/finding/finding.ts'
import * as vla from '../../sdk/index.ts'
import { lockSchema, type Lock } from '../../sdk/lock/lock.ts'
import type { Plan } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { BASE_HEAD, BASE_LOCK, BASE_PIPELINE } from '../../sdk/rules/base.ts'
import type { Example, MergePatch } from '../../sdk/rules/rule.ts'
import { runRules } from '../../sdk/rules/run.ts'

const names = Object.keys(vla)

/** The whole pipeline.ts of an example: the base pipeline with the example's properties in the place of those of the same name. */
export function pipelineText(code: string): string {
  const own = topLevelKeys(code)
  const kept = Object.entries(BASE_PIPELINE).filter(([key]) => !own.includes(key))
  const body = [...kept.map(([, text]) => `${text},`), code].join('\n').replace(/^/gm, '  ')
  return `import { ${names.join(', ')} } from 'vla-pipeline'\n\n${BASE_HEAD}\n\nexport default defineVLAPipeline({\n${body}\n})\n`
}

function topLevelKeys(code: string): string[] {
  const file = ts.createSourceFile('example.ts', `({\n${code}\n})`, ts.ScriptTarget.ESNext, true)
  const [statement] = file.statements
  if (
    statement === undefined ||
    !ts.isExpressionStatement(statement) ||
    !ts.isParenthesizedExpression(statement.expression)
  )
    throw new Error(`not an object: ${code}`)
  const literal = statement.expression.expression
  if (!ts.isObjectLiteralExpression(literal)) throw new Error(`not an object: ${code}`)
  return literal.properties.map((property) => property.name?.getText() ?? '')
}

/** What the default export of a pipeline.ts is when it runs. */
export function evaluate(text: string): unknown {
  const plain = ts.transpileModule(text.replace(/^import .*$/m, '').replace('export default', 'return'), {
    compilerOptions: { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext },
  }).outputText
  // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- the text is one of our own examples
  return new Function(...names, plain)(...Object.values(vla)) as unknown
}

/** The base pipeline's lock with a JSON merge patch (RFC 7396); `$copy` starts an entry from another one. */
export function lockOf(patch: MergePatch | undefined): Lock {
  const merged =
    patch === undefined ? BASE_LOCK : merge(BASE_LOCK, patch, (BASE_LOCK as { datasets: MergePatch }).datasets)
  return z.parse(lockSchema, merged)
}

function merge(target: MergePatch, patch: MergePatch, siblings: MergePatch): MergePatch {
  if (!isRecord(patch)) return patch
  const { $copy, ...changes } = patch
  const base = typeof $copy === 'string' ? (siblings as Record<string, MergePatch>)[$copy] : target
  const result: Record<string, MergePatch> = isRecord(base) ? { ...base } : {}
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) Reflect.deleteProperty(result, key)
    else result[key] = merge(result[key] ?? null, value, siblings)
  }
  return result
}

function isRecord(value: MergePatch | undefined): value is { readonly [key: string]: MergePatch } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export interface Judged {
  readonly declaration: unknown
  readonly plan: Plan | undefined
  readonly findings: Finding[]
}

/** Everything that reading, planning and all rules say about a text. */
export function judge(text: string, lock: Lock): Judged {
  const declaration = evaluate(text)
  const parsed = parseDeclaration(declaration)
  const resolved = resolve(parsed.declaration, lock, parsed)
  const reported = [...parsed.findings, ...resolved.findings]
  const findings = resolved.plan === undefined ? [] : runRules(resolved.plan, { reported })
  return { declaration, plan: resolved.plan, findings: [...reported, ...findings] }
}

const judged = new Map<Pick<Example, 'code' | 'lock'>, Judged & { text: string }>()

/** The verdict on an example; the same object is judged once. */
export function judgeExample(example: Pick<Example, 'code' | 'lock'>): Judged & { text: string } {
  const known = judged.get(example)
  if (known !== undefined) return known
  const text = pipelineText(example.code)
  const verdict = { text, ...judge(text, lockOf(example.lock)) }
  judged.set(example, verdict)
  return verdict
}
