/**
 * Finds a Python that can run the generated project.
 *
 * Names are not believed: a pyenv shim called python3.12 exists and fails when that version is not selected, and uv does not see
 * pyenv's version folders. So each candidate is run and says what it is.
 */
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { execa } from 'execa'
import { definedOnly } from './child.ts'
import { CannotDo } from './errors.ts'
import type { Host } from './host.ts'

/** Versions that the lock file of generated projects is made for, best first. */
const PYTHON_VERSIONS = ['3.12', '3.13'] as const

export interface Python {
  /** Absolute path of the interpreter. */
  readonly path: string
  /** `3.12.1` */
  readonly version: string
}

interface Tried {
  readonly candidate: string
  /** Why it was passed over. */
  readonly because: string
}

const SELF_REPORT = 'import sys; print("%d.%d.%d" % sys.version_info[:3]); print(sys.executable)'

/**
 * The first candidate that runs and has a version of `PYTHON_VERSIONS`, 3.12 before 3.13.
 *
 * `VLA_PYTHON` in the environment overrides: if it is set, nothing else is tried.
 *
 * @throws CannotDo with everything that was tried and how to install one.
 */
export async function findPython(host: Host): Promise<Python> {
  const tried: Tried[] = []
  const fallbacks: Python[] = []
  const override = host.env['VLA_PYTHON']
  for (const candidate of override === undefined ? await candidates(host) : [override]) {
    const answer = await askPython(candidate, host)
    if (typeof answer === 'string') {
      tried.push({ candidate, because: answer })
    } else if (answer.version.startsWith(`${PYTHON_VERSIONS[0]}.`)) {
      return answer
    } else if (PYTHON_VERSIONS.some((version) => answer.version.startsWith(`${version}.`))) {
      fallbacks.push(answer)
    } else {
      tried.push({ candidate, because: `is Python ${answer.version}` })
    }
  }
  const [second] = fallbacks
  if (second !== undefined) return second
  throw new CannotDo(noPython(tried, override !== undefined), installHint(override !== undefined))
}

/** What a candidate says when it is run: the interpreter, or why it is none. */
export async function askPython(candidate: string, host: Host): Promise<Python | string> {
  const result = await execa(candidate, ['-c', SELF_REPORT], {
    cwd: host.cwd,
    env: definedOnly(host.env),
    extendEnv: false,
    reject: false,
    timeout: 15_000,
    stdin: 'ignore',
  })
  if (result.code === 'ENOENT') return 'is not there'
  if (result.timedOut) return 'did not answer within 15 s'
  if (result.exitCode === undefined)
    return `could not be started: ${result.originalMessage ?? result.code ?? 'no reason given'}`
  if (result.exitCode !== 0) return `exits with ${String(result.exitCode)}: ${firstLine(result.stderr)}`
  const [version, path] = result.stdout.split('\n').map((line) => line.trim())
  if (version === undefined || path === undefined || !/^\d+\.\d+\.\d+$/.test(version))
    return `answered '${firstLine(result.stdout)}'`
  return { version, path }
}

async function candidates(host: Host): Promise<string[]> {
  const found: string[] = []
  const search = (host.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  const onPath = (name: string): string[] =>
    search.map((folder) => join(folder, name)).filter((file) => existsSync(file))

  const [uv] = onPath('uv')
  if (uv !== undefined) {
    for (const version of PYTHON_VERSIONS) {
      const options = { env: definedOnly(host.env), extendEnv: false, reject: false, timeout: 15_000 } as const
      const result = await execa(uv, ['python', 'find', '--no-python-downloads', '--no-project', version], options)
      if (result.exitCode === 0) found.push(result.stdout.trim())
    }
  }
  for (const name of ['python3.12', 'python3.13', 'python3', 'python']) found.push(...onPath(name))
  const versions = join(host.env['PYENV_ROOT'] ?? join(host.env['HOME'] ?? homedir(), '.pyenv'), 'versions')
  if (existsSync(versions)) {
    const installed = readdirSync(versions).filter((name) =>
      PYTHON_VERSIONS.some((version) => name.startsWith(`${version}.`)),
    )
    found.push(...installed.sort(byVersion).map((name) => join(versions, name, 'bin', 'python3')))
  }
  return [...new Set(found)]
}

/** Newest first: 3.12.10 before 3.12.9. */
function byVersion(a: string, b: string): number {
  return b.localeCompare(a, 'en', { numeric: true })
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? ''
}

function noPython(tried: readonly Tried[], overridden: boolean): string {
  const lines = tried.map(({ candidate, because }) => `  ${candidate} ${because}`)
  const what = `No Python ${PYTHON_VERSIONS.join(' or ')} was found${overridden ? ' where VLA_PYTHON points' : ''}.`
  return lines.length === 0 ? `${what} Nothing called python is on the path.` : [`${what} Tried:`, ...lines].join('\n')
}

function installHint(overridden: boolean): string {
  return [
    ...(overridden ? ['Point VLA_PYTHON at a Python 3.12, or unset it to have one looked for.'] : []),
    'Install one, for example:',
    '  uv python install 3.12            (uv: https://docs.astral.sh/uv)',
    '  pyenv install 3.12',
    '  sudo apt install python3.12 python3.12-venv',
    '  brew install python@3.12',
    ...(overridden ? [] : ['or point VLA_PYTHON at one that is elsewhere.']),
  ].join('\n')
}
