/** uv installs the Python environment. It is taken from the path, or installed once from PyPI into a folder of our own. */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { runChild } from './child.ts'
import { CannotDo } from './errors.ts'
import type { Python } from './find.ts'
import type { Host } from './host.ts'

/** Where tools are kept between runs. */
function cacheFolder(host: Host): string {
  return join(host.env['XDG_CACHE_HOME'] ?? join(host.env['HOME'] ?? homedir(), '.cache'), 'vla')
}

/**
 * Path of a uv that runs.
 *
 * @throws CannotDo when there is none and none can be installed with `python`.
 */
export async function obtainUv(host: Host, python: Python): Promise<string> {
  const onPath = (host.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'uv'))
    .filter((file) => existsSync(file))
  const folder = join(cacheFolder(host), 'uv')
  const own = join(folder, 'bin', 'uv')
  for (const candidate of [...onPath, own]) {
    if (existsSync(candidate) && (await runs(candidate, host))) return candidate
  }

  host.terminal.write(`uv is not installed; fetching it from PyPI into ${folder}\n`)
  await mkdir(folder, { recursive: true })
  const steps: [string, string[]][] = [
    [python.path, ['-m', 'venv', '--clear', folder]],
    [join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', 'uv']],
  ]
  for (const [file, args] of steps) {
    const result = await runChild(file, args, { host, output: 'collect' })
    if (result.exitCode !== 0) {
      const said = (result.startError ?? (result.stderr.trim() || result.stdout.trim())).split('\n').slice(-6)
      throw new CannotDo(
        [`uv could not be installed: ${file} ${args.join(' ')} failed.`, ...said.map((line) => `  ${line}`)].join('\n'),
        'Install uv yourself (https://docs.astral.sh/uv) so that it is on the path. On Debian and Ubuntu, "python -m venv" also needs python3.12-venv.',
      )
    }
  }
  if (!(await runs(own, host))) {
    throw new CannotDo(
      `uv was installed into ${folder} but does not run.`,
      'Install uv yourself (https://docs.astral.sh/uv).',
    )
  }
  return own
}

async function runs(uv: string, host: Host): Promise<boolean> {
  return (await runChild(uv, ['--version'], { host, output: 'collect' })).exitCode === 0
}
