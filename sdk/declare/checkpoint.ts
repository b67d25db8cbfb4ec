/** When the run is saved. */
import * as z from 'zod'

import { lasting, positive, type Duration } from './common.ts'

export interface Checkpoint {
  /** Updates (or share of the run) between two checkpoints. The last update is always saved. */
  readonly every: Duration
  /**
   * Newest complete checkpoints that stay on disk.
   * @default 3
   */
  readonly keep?: number
}

export const checkpointSchema: z.ZodType<Checkpoint> = z.strictObject({
  every: lasting,
  keep: positive.exactOptional(),
})
