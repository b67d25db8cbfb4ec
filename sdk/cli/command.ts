/** What all commands share: how they are declared, and how their outcome is told. */
import type { Command } from 'commander'
import type { Diagnostic } from '../locate/diagnostic.ts'
import type { ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'

/** What a command has to say when it is done. */
export interface Outcome {
  readonly exit: ExitCode
  /** The fields of its `--json` object beside the common ones. */
  readonly data: Readonly<Record<string, unknown>>
  /** stdout without `--json`: the data that was asked for. */
  readonly text?: string
  /** stderr without `--json`: what happened. */
  readonly summary?: string
  /** Shown on stderr before the summary. */
  readonly diagnostics?: readonly Diagnostic[]
  /** Absolute paths of what it was read from: when one of them changes, it may be another. */
  readonly files?: readonly string[]
}

type Action = (args: readonly string[], options: Readonly<Record<string, unknown>>, io: Io) => Promise<Outcome>

export interface Registrar {
  /**
   * Adds `--json` and `action` to a command. Actions import what they need themselves, so that no command pays for another.
   *
   * @param misused What stands below a message about its arguments.
   */
  readonly add: (command: Command, action: Action, misused?: string) => void
}

/** The option every command has. */
export const JSON_OPTION = ['--json', 'one JSON object on stdout (schemas/cli.schema.json)'] as const
