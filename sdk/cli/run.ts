/** The command line: reads arguments, runs a command, tells its outcome, returns the exit code. */
import { Command, CommanderError } from 'commander'
import { CannotDo, Interrupted } from '../python/errors.ts'
import { buildCommand } from './build.ts'
import { checkCommand } from './check.ts'
import { JSON_OPTION } from './command.ts'
import type { Registrar } from './command.ts'
import { convertCommand } from './convert.ts'
import { Declined } from './declined.ts'
import { envCommand } from './env.ts'
import { EXIT } from './exit-codes.ts'
import type { ExitCode } from './exit-codes.ts'
import { explainCommand } from './explain.ts'
import { importCommand } from './import.ts'
import { initCommand } from './init.ts'
import { inspectCommand } from './inspect-policy.ts'
import type { Io } from './io.ts'
import { lockCommand } from './lock.ts'
import { packCommand } from './pack.ts'
import { version } from './package.ts'
import { planCommand } from './plan.ts'
import { rulesCommand } from './rules.ts'
import { runCommand } from './train.ts'
import { paint } from './style.ts'
import { asksForJson, JSON_SCHEMA_VERSION, tell } from './tell.ts'

const HELP = `
Exit codes:
  0  done
  1  a bug in vla
  2  the job could not be done (usage, a missing file, a failed run)
  3  declined
  4  check found errors, or more warnings than --max-warnings
  5  the generated project is out of date or was edited by hand
  130, 143  ended by Ctrl-C, by SIGTERM`

/**
 * Runs the command line.
 *
 * @param argv What stands after the program's name.
 * @returns The exit code; see `EXIT`.
 */
export async function run(argv: readonly string[], io: Io): Promise<ExitCode> {
  let exit: ExitCode = EXIT.ok
  let running = ''
  const json = asksForJson(argv)
  const program = new Command('vla')
    .description(
      'Checks a declaration of a vision-language-action training run and turns it into a PyTorch project you can read.',
    )
    .version(version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .addHelpText('after', HELP)
    .showSuggestionAfterError()
    .configureHelp({ showGlobalOptions: false })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })

  const registrar: Registrar = {
    add: (command, action, misused) => {
      command.option(...JSON_OPTION).exitOverride()
      command.copyInheritedSettings(program)
      if (misused !== undefined) command.showHelpAfterError(misused)
      command.action(async () => {
        running = command.name()
        const outcome = await action(command.args, command.opts(), io)
        await tell(running, outcome, json, io)
        exit = outcome.exit
      })
      program.addCommand(command)
    },
  }
  const commands = [
    ...[initCommand, importCommand, checkCommand, lockCommand, planCommand, buildCommand],
    ...[runCommand, packCommand, convertCommand, inspectCommand, explainCommand, rulesCommand, envCommand],
  ]
  for (const declare of commands) declare(registrar)

  try {
    await program.parseAsync(argv, { from: 'user' })
    return exit
  } catch (error) {
    return tellError(error, running || commandIn(argv, program), json, io)
  }
}

/** Tells an error once, on stderr for people or on stdout for `--json`, and gives its exit code. */
function tellError(error: unknown, command: string, json: boolean, io: Io): ExitCode {
  if (error instanceof CommanderError) {
    // Help and version are no errors; everything else commander throws is wrong usage, and it has said so on stderr.
    if (error.exitCode === 0) return EXIT.ok
    const message = error.message.replace(/^error: /, '')
    return report(
      { exit: EXIT.failed, kind: 'usage', message, fix: `vla ${command}${command === '' ? '' : ' '}--help` },
      true,
    )
  }
  if (error instanceof CannotDo)
    return report({ exit: EXIT.failed, kind: 'failed', message: error.message, fix: error.fix })
  if (error instanceof Declined)
    return report({ exit: EXIT.declined, kind: 'declined', message: error.message, fix: error.fix })
  if (error instanceof Interrupted) {
    const exit = error.signal === 'SIGINT' ? EXIT.sigint : EXIT.sigterm
    return report({ exit, kind: 'interrupted', message: `ended by ${error.signal}`, fix: '' })
  }
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return report({
    exit: EXIT.bug,
    kind: 'bug',
    message: stack,
    fix: 'This is a bug in vla, not in your declaration. Please report it with the text above.',
  })

  function report(told: { exit: ExitCode; kind: string; message: string; fix: string }, saidAlready = false): ExitCode {
    const { exit, ...rest } = told
    if (json) {
      const common = { ok: false, command, version, schemaVersion: JSON_SCHEMA_VERSION, exitCode: exit }
      io.stdout.write(`${JSON.stringify({ ...common, error: rest, diagnostics: [] })}\n`)
    } else if (!saidAlready) {
      io.stderr.write(
        `${paint(io, ['bold', 'red'], told.kind === 'interrupted' ? 'stopped' : 'error')}  ${told.message}\n`,
      )
      if (told.fix !== '') io.stderr.write(`${paint(io, 'cyan', 'fix')}    ${told.fix.split('\n').join('\n       ')}\n`)
    }
    return exit
  }
}

function commandIn(argv: readonly string[], program: Command): string {
  return argv.find((word) => program.commands.some((command) => command.name() === word)) ?? ''
}
