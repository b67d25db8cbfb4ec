/** What several nouns of the vocabulary share: durations, dtypes, JSON, and the schemas of plain values. */
import * as z from 'zod'

/**
 * A moment or a length of the run: a number of optimizer updates (`1_000`), or a share of all updates (`'75%'`).
 * Shares are rounded to the nearest update; the plan shows the number.
 */
export type Duration = number | `${number}%`

/** A share of a whole: `'5%'`. */
export type Share = `${number}%`

/** Numeric type of computation or storage. `fp64` exists on `cpus` alone, for verification. */
export type DType = 'fp64' | 'fp32' | 'bf16'

/** Any JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }

/**
 * A compile error with words: a value of this type cannot be written, so its text shows up where the mistake stands. The text starts
 * with the id of the rule that says the same at run time, and ends with what to do.
 */
export interface VlaTypeError<Text extends string> {
  readonly '~vla': Text
}

export const dtypes = ['fp64', 'fp32', 'bf16'] as const satisfies readonly DType[]

export const dtype = z.enum(dtypes)
export const positive = z.number().int().positive()
export const count = z.number().int().nonnegative()
export const text = z.string().min(1)

const sharePattern = /^(?:100(?:\.0+)?|\d{1,2}(?:\.\d+)?)%$/

/** `'0%'` to `'100%'`. */
export const share = z.custom<Share>((value) => typeof value === 'string' && sharePattern.test(value), {
  error: "expected a share between '0%' and '100%'",
})

/** Updates or a share of the run. */
export const duration = z.custom<Duration>(
  (value) =>
    (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) ||
    (typeof value === 'string' && sharePattern.test(value)),
  { error: "expected a number of updates (1_000) or a share of the run ('75%')" },
)

/** A duration that is not nothing. */
export const lasting = duration.refine((value) => value !== 0 && !/^0*(?:\.0*)?%$/.test(String(value)), {
  error: 'expected more than zero updates',
})

/** A record of JSON values, as keyword arguments of a Python constructor. */
export const jsonRecord: z.ZodType<Readonly<Record<string, Json>>> = z.record(z.string(), z.json())

/** GiB in bytes, for memory sizes: `gib(128)`. */
export function gib(count: number): number {
  return Math.round(count * 2 ** 30)
}
