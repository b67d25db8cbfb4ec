/** Somebody said no, or nobody could be asked. Exit code 3. */
export class Declined extends Error {
  override readonly name = 'Declined'
  /** How to say yes beforehand. */
  readonly fix: string

  constructor(message: string, fix: string) {
    super(message)
    this.fix = fix
  }
}
