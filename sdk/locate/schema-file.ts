/** The published JSON Schema of diagnostics. */
import * as z from 'zod'
import { diagnosticsReport } from './diagnostic.ts'

/** The text of `schemas/diagnostics.schema.json`. */
export function diagnosticsSchemaFile(): string {
  const schema = {
    ...z.toJSONSchema(diagnosticsReport),
    $id: 'vla-pipeline/diagnostics.schema.json',
    title: 'Diagnostics of vla',
  }
  return `${JSON.stringify(schema, null, 2)}\n`
}
