/** What comes out. */
import * as z from 'zod'

import { dtype, type DType } from './common.ts'

export interface ExportOptions {
  /**
   * Dtype of the packaged weights; it decides the tolerance of the comparison with the trainer's actions.
   * @default 'fp32'
   */
  readonly dtype?: DType
}
export interface HfExport extends ExportOptions {
  readonly kind: 'hf'
}
export interface LerobotExport extends ExportOptions {
  readonly kind: 'lerobot'
}

export type Export = HfExport | LerobotExport

/** A transformers directory whose code travels with it: `from_pretrained(dir, trust_remote_code=True)`. */
export function hf(options?: ExportOptions): HfExport {
  return { kind: 'hf', ...options }
}

/** A LeRobot policy directory and the installable plugin that loads it. */
export function lerobot(options?: ExportOptions): LerobotExport {
  return { kind: 'lerobot', ...options }
}

export const exportSchema: z.ZodType<readonly Export[]> = z.array(
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('hf'), dtype: dtype.exactOptional() }),
    z.strictObject({ kind: z.literal('lerobot'), dtype: dtype.exactOptional() }),
  ]),
)
