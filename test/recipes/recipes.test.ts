/** The recipes of `catalog/recipes` through the real chain: what is published is not wrong, so that whatever calls it so is. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { Declaration } from '../../sdk/declare/pipeline.ts'
import type { Finding } from '../../sdk/finding/finding.ts'
import type { Lock } from '../../sdk/lock/lock.ts'
import { loadLock, lockText } from '../../sdk/lock/make.ts'
import type { Plan } from '../../sdk/plan/plan.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { published } from './published.ts'

const root = path.join(import.meta.dirname, '../../catalog/recipes')
const names = readdirSync(root, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))

interface Judged {
  readonly plan: Plan
  readonly lock: Lock | undefined
  readonly findings: readonly Finding[]
}

async function load(name: string): Promise<Declaration> {
  const file = pathToFileURL(path.join(root, name, 'pipeline.ts')).href
  return ((await import(/* @vite-ignore */ file)) as { default: Declaration }).default
}

/** What `vla check` finds, with the recipe's own lock and what `more` knows beside it. */
async function judge(name: string, more?: Lock): Promise<Judged> {
  const folder = path.join(root, name)
  const declaration = await load(name)
  const parsed = parseDeclaration(declaration)
  const { lock, findings } = loadLock(declaration, folder)
  const known: Lock | undefined =
    more === undefined
      ? lock
      : {
          schemaVersion: 1,
          datasets: { ...more.datasets, ...lock?.datasets },
          weights: { ...more.weights, ...lock?.weights },
        }
  const resolved = resolve(parsed.declaration, known, parsed)
  if (resolved.plan === undefined) throw new Error(`${name} gives no plan`)
  const reported = [...parsed.findings, ...findings, ...resolved.findings]
  return { plan: resolved.plan, lock, findings: [...reported, ...runRules(resolved.plan, { reported })] }
}

const wrong = (findings: readonly Finding[]): string[] =>
  findings.filter(({ severity }) => severity !== 'info').map(({ id, message }) => `${id}: ${message}`)

describe.each(names)('recipe %s', (name) => {
  let judged: Judged
  let text: string
  beforeAll(async () => {
    judged = await judge(name)
    text = readFileSync(path.join(root, name, 'pipeline.ts'), 'utf8')
  })

  it('checks clean, and says what it could not look at', () => {
    expect(wrong(judged.findings)).toEqual([])
    const unread = Object.keys(judged.lock?.datasets ?? {}).length === 0
    expect(judged.findings.some(({ id }) => id === 'VLA020')).toBe(unread)
  })

  it('checks clean where what is public of its data and weights is known', async () => {
    expect(wrong((await judge(name, published)).findings)).toEqual([])
  })

  it('switches no rule off', () => {
    expect(judged.plan.pipeline.suppressed).toEqual([])
  })

  it('names its sources, and is listed with its folder', () => {
    expect(text).toMatch(/^\/\*\*[^/]*(?:Source: |No published run)/)
    expect(readFileSync(path.join(root, 'README.md'), 'utf8')).toContain(`[${name}](${name}/pipeline.ts)`)
  })

  it('has a lock in the form that vla lock writes, or none', () => {
    if (judged.lock === undefined) return
    expect(readFileSync(path.join(root, name, 'vla.lock.json'), 'utf8')).toBe(lockText(judged.lock))
  })
})

it('what is public is used: each entry is of some recipe', async () => {
  const plans = await Promise.all(names.map(async (name) => (await judge(name, published)).plan.pipeline))
  const datasets = plans.flatMap((plan) => plan.datasets.map(({ repo, frames }) => [repo, frames] as const))
  for (const { repo, frames } of Object.values(published.datasets)) expect(datasets).toContainEqual([repo, frames])
  const xvla = plans.find(({ name }) => name === 'xvla')
  expect(xvla?.modules.map(({ count }) => typeof count)).not.toContain('object')
})

it('the sizes of the published models come out', async () => {
  const count = async (name: string): Promise<number> => {
    const { modules } = (await judge(name, published)).plan.pipeline
    return modules.reduce((sum, module) => sum + (typeof module.count === 'number' ? module.count : Number.NaN), 0)
  }
  const adapters = async (name: string): Promise<number> => {
    const { modules } = (await judge(name)).plan.pipeline
    return modules.reduce((sum, { adapterCount }) => sum + (adapterCount as number), 0)
  }
  expect(await count('openvla-full')).toBe(7_541_237_184)
  expect(await adapters('openvla-lora')).toBe(110_828_288)
  // openpi's port, and a head of 257,152 x 2,048 that LeRobot 0.6.1 does not tie to the embedding.
  expect(await count('pi0')).toBe(3_501_372_176 + 257_152 * 2_048)
  expect(await count('pi05')).toBe(3_616_757_520 + 257_152 * 2_048)
  expect(await count('smolvla')).toBe(450_046_176)
})

// pi0's page sets another length of the cosine than LeRobot's default.
it.each(['act', 'diffusion', 'pi05', 'smolvla', 'xvla'])("%s says LeRobot's own numbers", async (name) => {
  const said = await load(name)
  const { updates, globalBatch, microBatch } = said.training
  const unsaid = {
    ...said,
    training: { updates, globalBatch, microBatch },
    modules: Object.fromEntries(Object.entries(said.modules ?? {}).map(([key, { lr: _, ...rest }]) => [key, rest])),
  }
  const numbers = (declaration: unknown): unknown => {
    const parsed = parseDeclaration(declaration)
    const { plan } = resolve(parsed.declaration, undefined, parsed)
    if (plan === undefined) throw new Error(`${name} gives no plan`)
    const { training, modules } = plan.pipeline
    const { schedule, clip, optimizer } = training
    const rates = modules.map(({ name: module, lr, weightDecay }) => ({ module, lr, weightDecay }))
    return { schedule, clip, betas: optimizer.betas, eps: optimizer.eps, rates }
  }
  expect(numbers(said)).toEqual(numbers(unsaid))
})
