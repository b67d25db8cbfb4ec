/** Exit codes of every command. They are part of the interface and never change their meaning. */
export const EXIT = {
  /** The job is done. */
  ok: 0,
  /** A bug in vla itself; nothing else gives this code. */
  bug: 1,
  /** The job could not be done: wrong usage, a file that is not there, a run that failed. */
  failed: 2,
  /** A question was answered with no, or could not be asked. */
  declined: 3,
  /** `check` (and what checks first) found errors, or more warnings than allowed. */
  findings: 4,
  /** What was generated is out of date or was edited by hand. */
  stale: 5,
  /** Ctrl-C. */
  sigint: 130,
  /** SIGTERM, or a closed terminal. */
  sigterm: 143,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
