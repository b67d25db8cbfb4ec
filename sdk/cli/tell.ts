/** Tells the outcome of a command: one object on stdout with `--json`, else diagnostics and summary on stderr and data on stdout. */
import type { Outcome } from './command.ts'
import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'
import { version } from './package.ts'

/** Version of the shape of `--json`; it changes when a field changes its meaning or goes away. */
export const JSON_SCHEMA_VERSION = 1

/** Whether the object was asked for; known before the arguments are understood, so that wrong usage is told as one too. */
export function asksForJson(argv: readonly string[]): boolean {
  const own = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : undefined)
  return own.some(
    (word, index) =>
      word === '--json' || word === '--format=json' || (word === '--format' && own[index + 1] === 'json'),
  )
}

export async function tell(command: string, outcome: Outcome, json: boolean, io: Io): Promise<void> {
  const { exit, data, diagnostics = [], text, summary } = outcome
  if (json) {
    const common = { ok: exit === EXIT.ok, command, version, schemaVersion: JSON_SCHEMA_VERSION, exitCode: exit }
    io.stdout.write(`${JSON.stringify({ ...common, error: null, diagnostics, ...data })}\n`)
    return
  }
  if (diagnostics.length > 0) {
    const [{ render }, { entryById }] = await Promise.all([import('../locate/render.ts'), import('../rules/index.ts')])
    io.stderr.write(
      render(diagnostics, {
        colour: io.color,
        width: Math.min(io.stderr.columns, 120),
        root: io.cwd,
        nameOf: (id) => entryById(id)?.name,
      }),
    )
  }
  if (text !== undefined && text !== '') io.stdout.write(text.endsWith('\n') ? text : `${text}\n`)
  if (summary !== undefined && summary !== '') io.stderr.write(summary.endsWith('\n') ? summary : `${summary}\n`)
}
