/** `vla env`: makes or checks the Python environment. */
import { existsSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { Command, Option } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'
import { packageFolder } from './package.ts'
import { plural } from './style.ts'

interface Options {
  readonly dir?: string
  readonly torch?: string
  readonly check?: boolean
}

export function envCommand({ add }: Registrar): void {
  add(
    new Command('env')
      .description('make or check the Python environment of a generated project')
      .argument('[project]', 'the generated project, for its requirements.lock', '.')
      .option('--dir <folder>', 'the folder that .venv lies in (default: the project)')
      .addOption(
        new Option(
          '--torch <backend>',
          "uv's torch backend: cpu, cu128, ..., auto (default: torch as PyPI has it)",
        ).argParser(torchBackend),
      )
      .option('--check', 'change nothing; exit 5 where the environment differs from the lock file')
      .addHelpText(
        'after',
        '\nA Python 3.12 is looked for: VLA_PYTHON, what uv knows, python3.12, python3.13 and python3 on the path, the versions of pyenv.',
      ),
    async (args, options, io) => env(args[0] ?? '.', options, io),
  )
}

function torchBackend(value: string): string {
  if (!/^[a-z0-9.]+$/.test(value)) throw new Error(`'${value}' is no torch backend`)
  return value
}

async function env(project: string, options: Options, io: Io): Promise<Outcome> {
  const { checkEnvironment, describe, makeEnvironment } = await import('../python/environment.ts')
  const folder = resolve(io.cwd, project)
  const request = {
    host: hostOf(io),
    requirements: requirementsOf(folder),
    directory: options.dir === undefined ? folder : resolve(io.cwd, options.dir),
    torch: options.torch,
  }
  if (options.check === true) {
    const { python, differences, packages } = await checkEnvironment(request)
    const current = differences.length === 0
    return {
      exit: current ? EXIT.ok : EXIT.stale,
      data: {
        python,
        version: null,
        directory: join(request.directory, '.venv'),
        state: current ? 'current' : 'stale',
        packages,
        differences,
      },
      summary: current
        ? `${python}: ${plural(packages, 'package')} as locked`
        : `${python} differs from the lock file: ${describe(differences)}\nPut it right with: vla env ${project}`,
    }
  }
  const made = await makeEnvironment(request)
  const { python, version, directory, state, packages } = made
  return {
    exit: EXIT.ok,
    data: { python, version, directory, state, packages, differences: [] },
    summary:
      state === 'current'
        ? `${shown(directory, io)} is up to date: Python ${version}, ${plural(packages, 'package')}`
        : `${shown(directory, io)} is ready: Python ${version}, ${plural(packages, 'package')}\nActivate it with: source ${join(shown(directory, io), 'bin/activate')}`,
  }
}

/** The project's lock file; before anything is built, the one that every project gets. */
function requirementsOf(folder: string): string {
  const own = join(folder, 'requirements.lock')
  if (existsSync(own) || !existsSync(join(folder, 'pipeline.ts'))) return own
  return join(packageFolder, 'templates/runtime/requirements.lock')
}

function shown(path: string, io: Io): string {
  const inside = relative(io.cwd, path)
  return inside.startsWith('..') || inside === '' ? path : inside
}
