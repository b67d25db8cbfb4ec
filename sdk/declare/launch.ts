/** How the run is started. */
import * as z from 'zod'

import { text } from './common.ts'

export interface Torchrun {
  readonly kind: 'torchrun'
}
export interface SlurmOptions {
  /** Partition. */
  readonly partition: string
  /** Time limit in Slurm's own form, `'24:00:00'` or `'2-00:00:00'`. */
  readonly time: string
  /**
   * Account that the job is charged to.
   * @default the user's own
   */
  readonly account?: string
  /**
   * Put the job back into the queue and resume when it is preempted.
   * @default true
   */
  readonly requeue?: boolean
  /**
   * Shell lines to run before the launch, verbatim: `['module load cuda/12.8']`.
   * @default none
   */
  readonly setup?: readonly string[]
}
export interface Slurm extends SlurmOptions {
  readonly kind: 'slurm'
}

export type Launch = Torchrun | Slurm

/** launch/local.sh: one node with torchrun. */
export function torchrun(): Torchrun {
  return { kind: 'torchrun' }
}

/** launch/slurm.sbatch. */
export function slurm(options: SlurmOptions): Slurm {
  return { kind: 'slurm', ...options }
}

/** One word of an `#SBATCH` line. */
const word = z.string().regex(/^[A-Za-z0-9_.,:@%+/-]+$/, { error: 'expected one word without blanks or quotes' })
const time = z.string().regex(/^(?:\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+|\d+-\d+:\d\d|\d+-\d+:\d\d:\d\d)$/, {
  error: "expected a Slurm time such as '24:00:00' or '2-00:00:00'",
})

export const launchSchema: z.ZodType<readonly Launch[]> = z.array(
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('torchrun') }),
    z.strictObject({
      kind: z.literal('slurm'),
      partition: word,
      time,
      account: word.exactOptional(),
      requeue: z.boolean().exactOptional(),
      setup: z.array(text).exactOptional(),
    }),
  ]),
)
