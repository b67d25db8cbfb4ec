/** The shape of `--json`, one object per command. Published as schemas/cli.schema.json; nothing of it is loaded when a command runs. */
import * as z from 'zod'
import { manifestPath } from '../emit/write.ts'
import { diagnostic } from '../locate/diagnostic.ts'
import { canonicalFile } from '../plan/canonical.ts'
import { EXIT } from './exit-codes.ts'
import { inspection } from './inspect-policy.ts'

const exitCode = z.literal(Object.values(EXIT))

const error = z
  .strictObject({
    kind: z.enum(['usage', 'failed', 'declined', 'interrupted', 'bug']),
    message: z.string(),
    fix: z.string(),
  })
  .nullable()

const common = {
  ok: z.boolean().describe('true for exit code 0'),
  version: z.string().describe('of vla'),
  schemaVersion: z.literal(1).describe('changes when a field changes its meaning or goes away'),
  exitCode: exitCode.describe(
    '0 ok, 1 bug, 2 could not do it, 3 declined, 4 findings, 5 stale or edited, 130 and 143 signals',
  ),
  diagnostics: z.array(diagnostic),
}

const done = { ...common, error: z.null() }
const count = z.number().int().nonnegative()

const severity = z.enum(['error', 'warning', 'info'])

const rule = z.looseObject({
  id: z.string(),
  name: z.string(),
  area: z.string(),
  severity,
  summary: z.string(),
})

const change = z.strictObject({
  path: z.string(),
  action: z
    .enum(['unchanged', 'create', 'replace', 'delete', 'keep', 'conflict', 'refused'])
    .describe(`beside what ${manifestPath} says`),
  message: z.string(),
  diff: z.string(),
})

const update = z.strictObject({
  update: count,
  loss: z.number().nullable(),
  lr: z.record(z.string(), z.number()),
  samples_per_second: z.number().nullable().optional(),
})

const place = z.strictObject({
  layout: z.enum(['openpi', 'lerobot', 'hf', 'prismatic', 'plugin']),
  path: z.string(),
})

const environment = { python: z.string(), version: z.string().nullable(), directory: z.string(), packages: count }

/** What each command adds to the common fields when it comes to its end, with or without findings. */
const commands = {
  init: {
    directory: z.string(),
    template: z.string(),
    packageManager: z.enum(['npm', 'pnpm', 'yarn', 'bun']),
    files: z.array(z.string()),
    git: z.boolean().describe('whether a repository was made'),
    installed: z.boolean(),
    next: z.array(z.string()).describe('the next steps, for people'),
  },
  import: {
    file: z.string().describe('the declaration that was written'),
    source: z.string().nullable().describe('the configuration file; null: the flags alone'),
    remarks: z.array(
      z.strictObject({
        kind: z
          .enum(['ignored', 'changed', 'differs', 'dropped', 'assumed'])
          .describe(
            'ignored or silently changed by LeRobot, done otherwise here, without a counterpart here, or not said at all',
          ),
        field: z.string().describe("of lerobot-train's configuration"),
        message: z.string(),
        source: z.string().nullable().describe('where it is known from'),
      }),
    ),
  },
  check: {
    file: z.string().nullable(),
    plan: z.strictObject({ hash: z.string(), name: z.string() }).nullable(),
    lockWritten: z.boolean(),
    fixed: z.array(z.strictObject({ label: z.string(), file: z.string() })),
  },
  lock: {
    file: z.string().nullable(),
    lock: z.string().nullable(),
    written: z.boolean(),
    datasets: z.array(z.string()),
    weights: z.array(z.string()),
  },
  plan: {
    file: z.string().nullable(),
    plan: z
      .looseObject({ schemaVersion: z.literal(1), hash: z.string() })
      .nullable()
      .describe('as schemas/plan.schema.json; parts that have errors are { unknown, because }'),
    lockWritten: z.boolean(),
  },
  build: {
    file: z.string().nullable(),
    out: z.string().nullable(),
    planHash: z.string().nullable(),
    changes: z.array(change),
    written: z.boolean(),
    stale: z.boolean(),
    lockWritten: z.boolean(),
  },
  run: { project: z.string(), run: z.string(), updates: count, last: update.nullable() },
  pack: { project: z.string() },
  convert: {
    from: place,
    to: place,
    conversion: z
      .looseObject({ notes: z.array(z.string()) })
      .describe('what was converted; as conversion.json in the target'),
    verification: z.looseObject({}).describe('what was compared; as verification.json in the target'),
  },
  inspect: {
    inspection,
    snippet: z.string().describe('what can be pasted into a pipeline.ts'),
  },
  explain: { rule, page: z.string().describe('as printed without --json') },
  rules: {
    file: z.string().nullable(),
    rules: z.array(
      rule.extend({
        findings: count.nullable(),
        off: z.string().nullable().describe('the reason for which the declaration switches it off'),
        state: z
          .enum(['passed', 'found', 'unseen', 'off'])
          .nullable()
          .describe('unseen: it found nothing, and could not look at everything; null without a declaration'),
        because: z.array(z.string()).describe('why it could not look, or not everywhere'),
      }),
    ),
  },
  env: {
    ...environment,
    state: z.enum(['made', 'current', 'stale']),
    differences: z.array(z.strictObject({ package: z.string(), locked: z.string(), installed: z.string().nullable() })),
  },
} as const

const names = Object.keys(commands) as (keyof typeof commands)[]

/** What a command prints with `--json`, whatever its exit code. */
export const cliOutput = z
  .union([
    ...names.map((name) => z.strictObject({ ...done, command: z.literal(name), ...commands[name] })),
    z.strictObject({ ...common, ok: z.literal(false), command: z.enum([...names, '']), error: error.unwrap() }),
  ])
  .meta({ title: 'vla --json' })

/** The text of `schemas/cli.schema.json`. */
export function cliSchemaFile(): string {
  return canonicalFile({ ...z.toJSONSchema(cliOutput), $id: 'vla-pipeline/cli.schema.json' })
}
