/** Writes the published JSON Schemas of the Plan, the lock and `--json`: `npx tsx scripts/write-schemas.ts`. A test fails when they are stale. */
import { writeFileSync } from 'node:fs'
import { diagnosticsSchemaFile } from '../sdk/locate/schema-file.ts'
import { cliSchemaFile } from '../sdk/cli/schema.ts'
import { lockSchemaFile } from '../sdk/lock/schema-file.ts'
import { planSchemaFile } from '../sdk/plan/schema-file.ts'

writeFileSync(new URL('../schemas/lock.schema.json', import.meta.url), lockSchemaFile())
writeFileSync(new URL('../schemas/plan.schema.json', import.meta.url), planSchemaFile())
writeFileSync(new URL('../schemas/diagnostics.schema.json', import.meta.url), diagnosticsSchemaFile())
writeFileSync(new URL('../schemas/cli.schema.json', import.meta.url), cliSchemaFile())
