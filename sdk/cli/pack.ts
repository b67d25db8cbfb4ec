/** `vla pack`: turns a checkpoint into the declared packages. */
import { resolve } from 'node:path'
import { Command } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'

interface Options {
  readonly python?: string
}

export function packCommand({ add }: Registrar): void {
  add(
    new Command('pack')
      .description(
        'package the newest checkpoint of a generated project, and compare each package with the trained policy',
      )
      .argument('<project>', 'folder of the generated project')
      .argument('[arguments...]', 'after --: arguments for pack.py (see vla pack <project> -- --help)')
      .option(
        '--python <path>',
        'interpreter (default: the nearest .venv in the project or above, else the activated environment)',
      ),
    async (args, options, io) => pack(args, options, io),
  )
}

async function pack([project = '.', ...args]: readonly string[], options: Options, io: Io): Promise<Outcome> {
  const [{ environmentPython }, { openProject, runScript }] = await Promise.all([
    import('../python/environment.ts'),
    import('../python/launch.ts'),
  ])
  const host = hostOf(io)
  const opened = await openProject(resolve(io.cwd, project))
  const python = await environmentPython(host, opened.directory, options.python)
  await runScript(host, opened, python, 'pack.py', args)
  return { exit: EXIT.ok, data: { project: opened.directory } }
}
