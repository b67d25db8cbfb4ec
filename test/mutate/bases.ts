/** The clean pipelines that are mutated: examples, what `vla init` gives, recipes. Each with a lock, so that every rule can look. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Declaration } from '../../sdk/declare/pipeline.ts'
import { parseDeclaration } from '../../sdk/declare/parse.ts'
import type { Finding } from '../../sdk/finding/finding.ts'
import { declaredDatasets } from '../../sdk/lock/declared.ts'
import { lockSchema, type DatasetEntry, type Lock } from '../../sdk/lock/lock.ts'
import { resolve } from '../../sdk/resolve/resolve.ts'
import { runRules } from '../../sdk/rules/run.ts'

export interface Base {
  readonly name: string
  readonly declaration: Declaration
  readonly lock: Lock
}

const root = fileURLToPath(new URL('../../', import.meta.url))
const FOLDERS = ['examples', 'templates/projects', 'catalog/recipes'] as const

/** Every pipeline of the repository that a user starts from. */
export async function loadBases(): Promise<Base[]> {
  const bases: Base[] = []
  for (const folder of FOLDERS) {
    const names = existsSync(join(root, folder)) ? readdirSync(join(root, folder)).sort() : []
    for (const name of names) {
      const file = join(root, folder, name, 'pipeline.ts')
      if (!existsSync(file)) continue
      const { default: declaration } = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as {
        default: Declaration
      }
      bases.push(baseOf(folder, name, declaration))
    }
  }
  return bases
}

/** A pipeline with its lock. */
export function baseOf(folder: string, name: string, declaration: Declaration): Base {
  return { name: `${folder}/${name}`, declaration, lock: lockFor(folder, name, declaration) }
}

/** The lock that stands with the pipeline or with the tests, and a description of each dataset that it does not know. */
function lockFor(folder: string, name: string, declaration: Declaration): Lock {
  const candidates = [join(root, 'test/emit/locks', `${name}.json`), join(root, folder, name, 'vla.lock.json')]
  const file = candidates.find((path) => existsSync(path))
  const known =
    file === undefined
      ? { schemaVersion: 1 as const, datasets: {}, weights: {} }
      : lockSchema.parse(JSON.parse(readFileSync(file, 'utf8')))
  const described = declaredDatasets(declaration).map(({ key, path }): [string, DatasetEntry] => {
    const index = path[1]
    const { data, cameras } = declaration
    const entry = typeof index === 'number' && Array.isArray(data) ? (data as { cameras?: object }[])[index] : undefined
    return [key, describe(Object.values({ ...cameras, ...entry?.cameras }) as string[])]
  })
  return { ...known, datasets: { ...Object.fromEntries(described), ...known.datasets } }
}

/** A dataset of an arm with seven joints: 500 episodes of ten seconds. */
function describe(cameras: readonly string[]): DatasetEntry {
  const vector = { dtype: 'float32', shape: [7], names: ['a', 'b', 'c', 'd', 'e', 'f', 'gripper'] }
  const seven = (value: number): number[] => Array.from({ length: 7 }, (_, index) => value * (1 + index / 20))
  const statistics = {
    min: seven(-1),
    max: seven(1),
    mean: seven(0.1),
    std: seven(0.4),
    q01: seven(-0.9),
    q99: seven(0.9),
  }
  return {
    repo: null,
    revision: null,
    fingerprint: '0'.repeat(64),
    codebaseVersion: 'v3.0',
    robotType: null,
    fps: 30,
    episodes: 500,
    frames: 150_000,
    features: {
      ...Object.fromEntries(
        cameras.map((name) => [name, { dtype: 'video', shape: [480, 640, 3], names: ['height', 'width', 'channels'] }]),
      ),
      'observation.state': vector,
      action: vector,
    },
    statistics: { 'observation.state': statistics, action: statistics },
  }
}

/** Errors and warnings of a declaration, before anything is launched. */
export function complaints(declaration: unknown, lock: Lock): Finding[] {
  const parsed = parseDeclaration(declaration)
  const resolved = resolve(parsed.declaration, lock, parsed)
  const reported = [...parsed.findings, ...resolved.findings]
  const found = resolved.plan === undefined ? [] : runRules(resolved.plan, { reported })
  return [...reported, ...found].filter(({ severity }) => severity !== 'info')
}
