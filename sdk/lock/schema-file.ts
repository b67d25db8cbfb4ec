/** The published JSON Schema of `vla.lock.json`. */
import * as z from 'zod'
import { canonicalFile } from '../plan/canonical.ts'
import { lockSchema } from './lock.ts'

/** The text of `schemas/lock.schema.json`. */
export function lockSchemaFile(): string {
  return canonicalFile({ ...z.toJSONSchema(lockSchema), $id: 'vla-pipeline/lock.schema.json', title: 'vla.lock.json' })
}
