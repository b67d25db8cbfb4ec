/** What this room needs from whoever calls it. The command line hands its own terminal on; tests hand on a fake. */

/** A place for text that people read: progress and reports, never data. */
export interface Terminal {
  write(text: string): unknown
  /** Whether lines can be rewritten in place. */
  readonly isTTY: boolean
  /** Width in characters. */
  readonly columns: number
}

/** The signals that end a command, first politely, then for good. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

export interface Host {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly terminal: Terminal
  /** Calls `listener` for every signal until the returned function is called; without listeners the process ends as usual. */
  onSignal(listener: (signal: StopSignal) => void): () => void
}
