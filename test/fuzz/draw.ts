/** Numbers from a seed: the same on every machine. */

export class Draw {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Uniform in [0, 1). mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<const T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error('nothing to pick from')
    return items[this.int(0, items.length - 1)] as T
  }

  /** `count` of the items, in another order, or all of them where there are fewer. */
  some<T>(items: readonly T[], count: number): T[] {
    const left = [...items]
    const taken: T[] = []
    while (taken.length < count && left.length > 0) taken.push(...left.splice(this.int(0, left.length - 1), 1))
    return taken
  }

  /** The fields with this share of draws, else nothing: for a spread into an object. */
  maybe<T extends object>(share: number, fields: () => T): T | Record<string, never> {
    return this.chance(share) ? fields() : {}
  }
}

/** The seed of a run: VLA_TEST_SEED, any text, or 0. */
export function seedOfRun(): number {
  const named = process.env['VLA_TEST_SEED'] ?? '0'
  return /^\d+$/.test(named)
    ? Number(named) >>> 0
    : Array.from(named).reduce((hash, character) => (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0, 7)
}
