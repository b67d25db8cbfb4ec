import { run } from '../../sdk/cli/run.ts'
import { cliOutput } from '../../sdk/cli/schema.ts'
import type { Io } from '../../sdk/cli/io.ts'
import type { StopSignal } from '../../sdk/python/host.ts'

export interface Told {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface FakeIo extends Io {
  readonly told: { stdout: string; stderr: string }
  signal(name: StopSignal): void
}

/** A world that keeps what is written. */
export function fakeIo(cwd: string, more: Partial<Pick<Io, 'env' | 'interactive'>> = {}): FakeIo {
  const told = { stdout: '', stderr: '' }
  const listeners = new Set<(signal: StopSignal) => void>()
  return {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' },
    stdout: { write: (text) => (told.stdout += text) },
    stderr: { write: (text) => (told.stderr += text), isTTY: false, columns: 100 },
    color: false,
    interactive: false,
    ...more,
    onSignal: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    told,
    signal: (name) => {
      for (const listener of listeners) listener(name)
    },
  }
}

/** Runs the command line in a folder. */
export async function vla(
  cwd: string,
  argv: readonly string[],
  more: Partial<Pick<Io, 'env' | 'interactive'>> = {},
): Promise<Told> {
  const io = fakeIo(cwd, more)
  const code = await run(argv, io)
  return { code, ...io.told }
}

/** The one object that a command prints with --json, checked against the published schema and its exit code. */
export async function vlaJson(
  cwd: string,
  argv: readonly string[],
  more: Partial<Pick<Io, 'env' | 'interactive'>> = {},
): Promise<Record<string, unknown>> {
  const { code, stdout } = await vla(cwd, [...argv, '--json'], more)
  const lines = stdout.trimEnd().split('\n')
  if (lines.length !== 1) throw new Error(`one line of JSON expected:\n${stdout}`)
  const output = cliOutput.parse(JSON.parse(lines[0] ?? ''))
  if (output.exitCode !== code || output.ok !== (code === 0))
    throw new Error(`exit code ${String(code)}, but the object says ${String(output.exitCode)}`)
  return output
}
