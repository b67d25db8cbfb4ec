/** `vla run`: trains a generated project. */
import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'

interface Options {
  readonly python?: string
  readonly port?: number
  readonly allowChange?: readonly string[]
}

export function runCommand({ add }: Registrar): void {
  add(
    new Command('run')
      .description('train: start a generated project through torchrun, or let it continue from its last checkpoint')
      .argument('<project>', 'folder of the generated project')
      .argument('[arguments...]', 'after --: arguments for train.py')
      .option(
        '--python <path>',
        'interpreter (default: the nearest .venv in the project or above, else the activated environment)',
      )
      .addOption(new Option('--port <number>', 'port of the rendezvous (default: a free one)').argParser(port))
      .option(
        '--allow-change <path>',
        'accept that this field has changed since the checkpoint, e.g. modules.vision.lr; may be repeated',
        collect,
      )
      .addHelpText('after', '\nCtrl-C lets the run end after the update it is in; a second Ctrl-C kills it.'),
    async (args, options, io) => train(args, options, io),
  )
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value]
}

function port(value: string): number {
  const number = Number(value)
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    throw new InvalidArgumentError('Give a port from 1 to 65535.')
  return number
}

async function train([project = '.', ...args]: readonly string[], options: Options, io: Io): Promise<Outcome> {
  const [{ environmentPython }, launch, { Interrupted }] = await Promise.all([
    import('../python/environment.ts'),
    import('../python/launch.ts'),
    import('../python/errors.ts'),
  ])
  const host = hostOf(io)
  const opened = await launch.openProject(resolve(io.cwd, project))
  const python = await environmentPython(host, opened.directory, options.python)
  const allowed = (options.allowChange ?? []).flatMap((path) => ['--allow-change', path])
  try {
    const { run, last } = await launch.train({
      host,
      project: opened,
      python,
      args: [...allowed, ...args],
      port: options.port,
      color: io.color,
    })
    const said =
      last === undefined
        ? 'had nothing left to do'
        : `loss ${last.loss === null ? 'not finite' : String(Number(last.loss.toPrecision(4)))}`
    return {
      exit: EXIT.ok,
      data: { project: opened.directory, run, updates: opened.updates, last: last ?? null },
      summary: `${opened.name}: complete, ${opened.updates.toLocaleString('en-US')} updates, ${said}\nCheckpoints, logs and metrics: ${run}`,
    }
  } catch (error) {
    if (error instanceof Interrupted)
      io.stderr.write(`Stopped. The last complete checkpoint stands; vla run ${project} continues from it.\n`)
    throw error
  }
}
