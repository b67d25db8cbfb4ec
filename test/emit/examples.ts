/** The pipelines of `examples/`, resolved with nothing but their lock: neither data nor weights are at hand. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { Finding } from '../../sdk/finding/finding.ts'
import { lockSchema, type Lock } from '../../sdk/lock/lock.ts'
import { readLock } from '../../sdk/lock/make.ts'
import type { Plan } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { repository } from './tools.ts'

const root = path.join(repository, 'examples')

export const exampleNames: readonly string[] = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
  .sort()

export interface Example {
  readonly declaration: unknown
  readonly plan: Plan
  readonly findings: readonly Finding[]
}

export async function loadExample(name: string): Promise<Example> {
  const module = (await import(/* @vite-ignore */ pathToFileURL(path.join(root, name, 'pipeline.ts')).href)) as {
    default: unknown
  }
  return inspectExample(name, module.default)
}

/** The lock beside an example. The quickstart records its own data on each machine, so that its lock stands with the tests. */
function lockOf(name: string): { lock: Lock | undefined; findings: readonly Finding[] } {
  const own = path.join(import.meta.dirname, 'locks', `${name}.json`)
  if (existsSync(own)) return { lock: lockSchema.parse(JSON.parse(readFileSync(own, 'utf8'))), findings: [] }
  return readLock(path.join(root, name))
}

/** Declaration and lock to plan and findings. */
export function inspectExample(name: string, declaration: unknown): Example {
  const parsed = parseDeclaration(declaration)
  const locked = lockOf(name)
  const { plan, findings } = resolve(parsed.declaration, locked.lock, parsed)
  if (plan === undefined) throw new Error(`examples/${name} gives no plan: ${JSON.stringify(parsed.findings)}`)
  return { declaration, plan, findings: [...parsed.findings, ...locked.findings, ...findings, ...runRules(plan)] }
}
