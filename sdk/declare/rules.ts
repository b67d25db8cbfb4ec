/** Rules that the user switches off, with a reason. */
import * as z from 'zod'

import { text } from './common.ts'

export interface Off {
  readonly kind: 'off'
  /** Why the rule does not apply here. */
  readonly reason: string
}

/** Switch a rule off: `rules: { VLA123: off('measured on our cluster') }`. The reason is listed in the plan and in the project. */
export function off(reason: string): Off {
  return { kind: 'off', reason }
}

export type Rules = Readonly<Record<`VLA${number}`, Off>>

export const rulesSchema: z.ZodType<Rules> = z.record(
  z.string().regex(/^VLA\d{3}$/) as unknown as z.ZodType<`VLA${number}`, `VLA${number}`> & z.core.$ZodRecordKey,
  z.strictObject({ kind: z.literal('off'), reason: text }),
)
