import type * as z from 'zod'
import type { inspection } from '../../sdk/cli/inspect-policy.ts'

/** What `vla inspect --json` prints beside the common fields. */
export interface Inspected {
  readonly inspection: z.output<typeof inspection>
  readonly snippet: string
}
