/** The published JSON Schema of the Plan. */
import * as z from 'zod'
import { canonicalFile } from './canonical.ts'
import { plan } from './plan.ts'

/** The text of `schemas/plan.schema.json`. */
export function planSchemaFile(): string {
  return canonicalFile({ ...z.toJSONSchema(plan), $id: 'vla-pipeline/plan.schema.json', title: 'plan.json' })
}
