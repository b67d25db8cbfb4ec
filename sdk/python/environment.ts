/** The Python environment of a generated project: made from its lock file, checked against it, found again. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import * as z from 'zod'
import { runChild } from './child.ts'
import { CannotDo } from './errors.ts'
import { askPython, findPython } from './find.ts'
import type { Host } from './host.ts'
import { obtainUv } from './uv.ts'

export interface EnvironmentRequest {
  readonly host: Host
  /** The lock file: exact pins, one per line. */
  readonly requirements: string
  /** The folder that `.venv` lies in, or is to lie in. */
  readonly directory: string
  /** uv's torch backend (`cpu`, `cu128`, `auto`); undefined: torch as PyPI has it. */
  readonly torch: string | undefined
}

export interface Environment {
  /** Absolute path of its interpreter. */
  readonly python: string
  readonly version: string
  /** Absolute path of the `.venv` folder. */
  readonly directory: string
  /** `made` now, or `current`: it already was what the lock file says. */
  readonly state: 'made' | 'current'
  /** Packages that the lock file pins. */
  readonly packages: number
}

export interface Difference {
  readonly package: string
  readonly locked: string
  /** null: not installed. */
  readonly installed: string | null
}

/** Written into the environment: for which torch backend it was made, which no version number tells. */
const stamp = z.object({ torch: z.string() })

/** The interpreter inside a `.venv` folder. */
function interpreter(venv: string): string {
  return join(venv, 'bin', 'python')
}

/**
 * Makes the environment, or finds that it is already what the lock file says.
 *
 * A `.venv` that was not made by us is completed, never deleted.
 *
 * @throws CannotDo when there is no lock file, no Python, no uv, or the installation fails.
 */
export async function makeEnvironment(request: EnvironmentRequest): Promise<Environment> {
  const { host, torch } = request
  const lock = await readLock(request.requirements)
  const venv = resolve(request.directory, '.venv')
  const python = interpreter(venv)

  const say = (text: string): unknown => host.terminal.write(`${text}\n`)
  const existing = existsSync(venv) ? await askPython(python, host) : undefined
  if (typeof existing === 'string') {
    throw new CannotDo(`${venv} is there, but its Python ${existing}.`, `Remove ${venv} and run this again.`)
  }
  const otherTorch = existing !== undefined && torch !== undefined && (await backendOf(venv)) !== torch
  if (existing !== undefined && !otherTorch && (await differences(host, python, lock)).length === 0) {
    return { python, version: existing.version, directory: venv, state: 'current', packages: lock.pins.size }
  }

  const base = await findPython(host)
  say(`Python ${base.version} (${base.path})`)
  const uv = await obtainUv(host, base)
  if (existing === undefined) await uvDoes(host, uv, ['venv', '--python', base.path, venv], `make ${venv}`)
  say(
    `Installing ${String(lock.pins.size)} packages from ${request.requirements}${torch === undefined ? '' : ` with torch for ${torch}`}; the first time takes minutes`,
  )
  await install(host, uv, python, request.requirements, lock, torch, otherTorch)
  const left = await differences(host, python, lock)
  if (left.length > 0) {
    throw new CannotDo(
      `${venv} is not what ${request.requirements} says after the installation: ${describe(left)}.`,
      `Remove ${venv} and run this again.`,
    )
  }
  if (torch !== undefined) await writeFile(join(venv, STAMP), `${JSON.stringify({ torch })}\n`)
  return { python, version: base.version, directory: venv, state: 'made', packages: lock.pins.size }
}

const STAMP = 'vla-env.json'

/**
 * What of the lock file the environment lacks or has in another version; empty when it is as it should be.
 *
 * @throws CannotDo when there is no environment or no lock file.
 */
export async function checkEnvironment(
  request: EnvironmentRequest,
): Promise<{ python: string; differences: Difference[]; packages: number }> {
  const lock = await readLock(request.requirements)
  const venv = resolve(request.directory, '.venv')
  const python = interpreter(venv)
  const answer = existsSync(venv) ? await askPython(python, request.host) : 'is not there'
  if (typeof answer === 'string')
    throw new CannotDo(`There is no Python environment: ${python} ${answer}.`, 'Make it with: vla env')
  return { python, differences: await differences(request.host, python, lock), packages: lock.pins.size }
}

/** One line about differences, for people. */
export function describe(found: readonly Difference[]): string {
  const shown = found
    .slice(0, 5)
    .map(({ package: name, locked, installed }) => `${name} ${installed ?? 'missing'} (locked: ${locked})`)
  return found.length > 5 ? `${shown.join(', ')} and ${String(found.length - 5)} more` : shown.join(', ')
}

/**
 * The interpreter that runs a generated project: `override`, else the nearest `.venv` in its folder or one above (as uv looks), else
 * the activated environment.
 *
 * @throws CannotDo when there is none.
 */
export async function environmentPython(host: Host, project: string, override: string | undefined): Promise<string> {
  const candidates: string[] = []
  if (override === undefined) {
    for (let folder = resolve(project); ; folder = dirname(folder)) {
      if (existsSync(join(folder, '.venv'))) candidates.push(interpreter(join(folder, '.venv')))
      if (dirname(folder) === folder) break
    }
    const active = host.env['VIRTUAL_ENV']
    if (active !== undefined) candidates.push(interpreter(active))
  } else {
    // A name without a slash is looked for on the path.
    candidates.push(override.includes('/') ? resolve(host.cwd, override) : override)
  }
  const [first] = candidates
  if (first === undefined) {
    throw new CannotDo(
      `There is no Python environment for ${project}: no .venv in it or above it, and none is activated.`,
      `Make one with: vla env ${project}`,
    )
  }
  const answer = await askPython(first, host)
  if (typeof answer === 'string')
    throw new CannotDo(`The Python of the environment, ${first}, ${answer}.`, `Make it again with: vla env ${project}`)
  // The path as it was found: sys.executable of an environment is the link in it, which is what makes it an environment.
  return answer.path
}

interface Lock {
  /** Normalised package name -> version, for pins that hold on every machine. */
  readonly pins: ReadonlyMap<string, string>
  readonly text: string
}

async function readLock(path: string): Promise<Lock> {
  if (!existsSync(path)) {
    throw new CannotDo(
      `${path} is not there.`,
      'Name the folder of a generated project, or build one first with: vla build --out DIR',
    )
  }
  const text = await readFile(path, 'utf8')
  const pins = new Map<string, string>()
  for (const line of text.split('\n')) {
    const match = /^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;]+)\s*(;.*)?$/.exec(line.trim())
    // A pin with a marker holds only on some machines, which uv decides.
    if (match?.[1] !== undefined && match[2] !== undefined && match[3] === undefined)
      pins.set(normalise(match[1]), match[2])
  }
  return { pins, text }
}

/** Package names compare as PEP 503 says. */
function normalise(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase()
}

/** The torch backend that an environment was made for; undefined where none was named. */
async function backendOf(venv: string): Promise<string | undefined> {
  const file = join(venv, STAMP)
  if (!existsSync(file)) return undefined
  try {
    return stamp.parse(JSON.parse(await readFile(file, 'utf8'))).torch
  } catch {
    return undefined // half-written
  }
}

const INSTALLED = `
import importlib.metadata, json
print(json.dumps({d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}))
`

async function differences(host: Host, python: string, lock: Lock): Promise<Difference[]> {
  const result = await runChild(python, ['-c', INSTALLED], { host, output: 'collect' })
  if (result.exitCode !== 0) {
    throw new CannotDo(
      `${python} cannot list its packages: ${result.startError ?? result.stderr.trim()}`,
      'Make the environment again: vla env',
    )
  }
  const listed = z.record(z.string(), z.string()).parse(JSON.parse(result.stdout))
  const installed = new Map(Object.entries(listed).map(([name, version]) => [normalise(name), version]))
  return [...lock.pins]
    .filter(([name]) => !belongsToTorchBuild(name) || installed.has(name))
    .map(([name, locked]) => ({ package: name, locked, installed: installed.get(name) ?? null }))
    .filter(
      ({ package: name, locked, installed: has }) =>
        has === null || (!belongsToTorchBuild(name) && has.split('+')[0] !== locked.split('+')[0]),
    )
}

/** Packages that a build of torch brings for its own kind of device; another build has others, or none. */
function belongsToTorchBuild(name: string): boolean {
  return name.startsWith('nvidia-') || name.startsWith('cuda-') || name === 'triton'
}

async function install(
  host: Host,
  uv: string,
  python: string,
  path: string,
  lock: Lock,
  torch: string | undefined,
  again: boolean,
): Promise<void> {
  const args = ['pip', 'install', '--python', python]
  if (torch === undefined) {
    await uvDoes(host, uv, [...args, '--requirements', path], 'install the packages')
    return
  }
  // The lock pins what PyPI's torch needs on its device; the chosen build brings its own.
  const folder = await mkdtemp(join(tmpdir(), 'vla-env-'))
  try {
    const filtered = join(folder, 'requirements.txt')
    const lines = lock.text.split('\n').filter((line) => !belongsToTorchBuild(normalise(line.split('==')[0] ?? '')))
    await writeFile(filtered, lines.join('\n'))
    // Another build of the same version counts as installed already.
    const anew = again ? ['--reinstall-package', 'torch', '--reinstall-package', 'torchvision'] : []
    await uvDoes(
      host,
      uv,
      [...args, ...anew, '--torch-backend', torch, '--requirements', filtered],
      'install the packages',
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function uvDoes(host: Host, uv: string, args: string[], what: string): Promise<void> {
  // uv draws its own progress on a terminal; elsewhere it is silent until it is done, so we say that it lives.
  const started = performance.now()
  const heartbeat = host.terminal.isTTY
    ? undefined
    : setInterval(
        () => host.terminal.write(`  ... ${String(Math.round((performance.now() - started) / 1000))} s\n`),
        10_000,
      )
  try {
    const result = await runChild(uv, args, { host, output: 'show' })
    if (result.exitCode !== 0) {
      throw new CannotDo(
        `uv could not ${what} (exit ${String(result.exitCode)}${result.startError === null ? '' : `: ${result.startError}`}).`,
        'Its message stands above. Where the machine reaches PyPI only, leave --torch out.',
      )
    }
  } finally {
    clearInterval(heartbeat)
  }
}
