/** The job cannot be done for a reason outside of us: something is missing, in the way, or failed. Exit code 2. */
export class CannotDo extends Error {
  override readonly name = 'CannotDo'
  /** What to do about it; one or more lines. */
  readonly fix: string

  constructor(message: string, fix: string) {
    super(message)
    this.fix = fix
  }
}

/** A signal ended the job. Exit code 130 or 143. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP'

  constructor(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP') {
    super(`ended by ${signal}`)
    this.signal = signal
  }
}
