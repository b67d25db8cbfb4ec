/**
 * What the project says to each public report (reports.json) and to each check of other trainers (peers.json): tests run the rows, and
 * docs/rules/coverage.md shows them.
 */
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import type { Example } from '../../../sdk/rules/rule.ts'

type Declared = Pick<Example, 'code' | 'lock'>

/** As an example of a rule: `code` replaces properties of the base pipeline (sdk/rules/base.ts), `lock` is merged into its lock. */
const declared = z.strictObject({ code: z.string(), lock: z.json().exactOptional() }) as z.ZodType<Declared>

/** A test of this repository: its file, and its name or a part of its title. */
const shown = z.strictObject({ file: z.string(), name: z.string() })

const report = { id: z.string(), url: z.url(), title: z.string() }
const check = {
  id: z.string(),
  /** The trainers that make it, and where the first of them does. */
  peers: z.array(z.string()).min(1),
  at: z.string(),
  title: z.string(),
  /** Where the peers' own check was wrong, and which valid example holds ours to it. */
  falseAlarm: z.string().exactOptional(),
}

/** Cannot happen: by which construct of what is emitted, and the test that shows it. */
const impossible = { state: z.literal('impossible'), by: z.string(), shown }
/** For a technique that a declaration cannot express yet. */
const waits = { state: z.literal('waits'), for: z.string() }
const notVisible = { state: z.literal('not visible'), why: z.string() }
/** The rule finds it in `wrong`, and nothing in `right`. */
const pair = { rule: z.string(), wrong: declared, right: declared }

const reportRow = z.union([
  z.strictObject({ ...report, state: z.literal('caught'), ...pair }),
  z.strictObject({ ...report, state: z.literal('caught'), rule: z.string(), shown }), // found in files, which a test has
  z.strictObject({ ...report, ...impossible }),
  z.strictObject({ ...report, ...waits }),
  z.strictObject({ ...report, ...notVisible }),
])

const peerRow = z.discriminatedUnion('state', [
  z.strictObject({ ...check, state: z.literal('caught'), rule: z.string() }), // whose own examples show it
  z.strictObject({ ...check, ...impossible }),
  z.strictObject({ ...check, ...waits }),
  z.strictObject({ ...check, ...notVisible }),
])

export type ReportRow = z.infer<typeof reportRow>
export type PeerRow = z.infer<typeof peerRow>

function read(file: string): unknown {
  return JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))
}

/** What is said to each public report. */
export function reportRows(): readonly ReportRow[] {
  return z.object({ reports: z.array(reportRow) }).parse(read('reports.json')).reports
}

/** What is said to each check of other trainers. */
export function peerRows(): readonly PeerRow[] {
  return z.object({ checks: z.array(peerRow) }).parse(read('peers.json')).checks
}
