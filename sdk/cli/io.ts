/** The world as a command sees it. `bin.ts` makes one from the process; tests make their own. */
import type { Host, StopSignal, Terminal } from '../python/host.ts'

export interface Io {
  /** Where relative paths start. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Data that was asked for, and nothing else. */
  readonly stdout: { write(text: string): unknown }
  /** Everything else. */
  readonly stderr: Terminal
  /** Whether text on stderr may have colours. */
  readonly color: boolean
  /** Whether questions can be asked: a person at a terminal, not CI. */
  readonly interactive: boolean
  /** Calls `listener` for every signal until the returned function is called; without listeners the process ends as usual. */
  onSignal(listener: (signal: StopSignal) => void): () => void
}

/** What the Python room needs of it. */
export function hostOf(io: Io): Host {
  return { cwd: io.cwd, env: io.env, terminal: io.stderr, onSignal: (listener) => io.onSignal(listener) }
}
