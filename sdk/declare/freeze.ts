/** When a module trains. */
import * as z from 'zod'

import { duration, lasting, positive, type Duration, type VlaTypeError } from './common.ts'

/** The last `count` live blocks of each tower or trunk of the module. */
export interface LastLayers {
  readonly kind: 'lastLayers'
  /** How many of the blocks that receive a gradient, from the end. */
  readonly count: number
}

/** What of a module trains: everything, nothing, or its last blocks. */
export type Trains = 'all' | 'none' | LastLayers

/** Frozen before `when`; then `thenTrain` trains. */
export interface Until<T extends 'all' | LastLayers = 'all' | LastLayers> {
  readonly kind: 'until'
  /** The first update at which something trains (or a share of the run). */
  readonly when: Duration
  /**
   * What trains from then on.
   * @default 'all'
   */
  readonly thenTrain?: T
  /**
   * Updates (or share of the run) of linear learning-rate re-warm-up.
   * @default 0
   */
  readonly rewarm?: Duration
}

/** One phase of a list. */
export interface Phase<T extends Trains = Trains> {
  readonly kind: 'phase'
  /** First update of the phase (or share of the run). */
  readonly from: Duration
  /** What trains in this phase. */
  readonly train: T
  /**
   * Updates (or share of the run) of linear learning-rate re-warm-up for what this phase unfreezes.
   * @default 0
   */
  readonly rewarm?: Duration
}

/** When a module trains: always (`'never'` frozen), never (`'always'` frozen), from some update on, or in phases. */
export type Freeze<T extends LastLayers = LastLayers> =
  'never' | 'always' | Until<'all' | T> | readonly [Phase<'all' | 'none' | T>, ...Phase<'all' | 'none' | T>[]]

export interface UntilOptions<T extends 'all' | LastLayers = 'all' | LastLayers> {
  /**
   * What trains from then on: `'all'`, or `lastLayers(n)`: the last n blocks that receive a gradient.
   * @default 'all'
   */
  readonly thenTrain?: T
  /**
   * Updates (or share of the run) over which the learning rate of what was just unfrozen rises linearly from zero: its Adam moments
   * start at zero.
   * @default 0
   */
  readonly rewarm?: Duration
}

export interface PhaseOptions<T extends Trains = Trains> {
  /** First update of the phase (or share of the run). The first phase starts at 0. */
  readonly from: Duration
  /** What trains in this phase: `'all'`, `'none'` or `lastLayers(n)`. */
  readonly train: T
  /**
   * Updates (or share of the run) of linear learning-rate re-warm-up for what this phase unfreezes.
   * @default 0
   */
  readonly rewarm?: Duration
}

type Zero = 0 | `${'' | '-'}0%` | '0.0%'

/** VLA003: a moment of the run that is not its beginning. */
type CheckMoment<W> = W extends Zero
  ? VlaTypeError<'VLA003: frozen until the first update is never frozen. Write a later update.'>
  : `${W & (string | number)}` extends `-${string}`
    ? VlaTypeError<'VLA003: updates are not negative.'>
    : W extends `${infer Digits}%`
      ? Digits extends '100' | `${string}.${string}`
        ? unknown
        : Digits extends `${string}${string}${infer Rest}`
          ? Rest extends ''
            ? unknown
            : VlaTypeError<'VLA003: a share of the run is at most 100%.'>
          : unknown
      : unknown

/** VLA003: at least one. */
type CheckCount<N> = `${N & number}` extends '0' | `-${string}` | `${string}.${string}`
  ? VlaTypeError<'VLA003: at least one layer, a whole number.'>
  : unknown

/** The last `count` blocks that receive a gradient (dead blocks are not counted), in each tower or trunk of the module. */
export function lastLayers<const N extends number>(count: N & CheckCount<N>): LastLayers {
  return { kind: 'lastLayers', count }
}

/**
 * Frozen until `when` (updates, or a share of the run).
 * @example freeze: until('75%', { thenTrain: lastLayers(6) })
 */
export function until<const W extends Duration, T extends 'all' | LastLayers = 'all'>(
  when: W & CheckMoment<W>,
  options?: UntilOptions<T>,
): Until<NoInfer<T>> {
  return { kind: 'until', when, ...options }
}

/** One phase of a freeze schedule: `[phase({ from: 0, train: 'none' }), phase({ from: '50%', train: lastLayers(4) })]`. */
export function phase<T extends Trains>(options: PhaseOptions<T>): Phase<T> {
  return { kind: 'phase', ...options }
}

const lastLayersSchema = z.strictObject({ kind: z.literal('lastLayers'), count: positive })

const phaseSchema: z.ZodType<Phase> = z.strictObject({
  kind: z.literal('phase'),
  from: duration,
  train: z.union([z.enum(['all', 'none']), lastLayersSchema]),
  rewarm: duration.exactOptional(),
})

export const freezeSchema: z.ZodType<Freeze> = z.union(
  [
    z.enum(['never', 'always']),
    z.strictObject({
      kind: z.literal('until'),
      when: lasting,
      thenTrain: z.union([z.literal('all'), lastLayersSchema]).exactOptional(),
      rewarm: duration.exactOptional(),
    }),
    z.array(phaseSchema).min(1) as unknown as z.ZodType<readonly [Phase, ...Phase[]]>,
  ],
  { error: "expected 'never', 'always', until(...) or a list of phase(...)" },
)
