/** `vla check`: says everything that is wrong with a declaration. */
import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Diagnostic, LocatedFix } from '../locate/diagnostic.ts'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { FORMATS } from './formats.ts'
import type { Format } from './formats.ts'
import { declarationFile } from './load.ts'
import { inspect, located, orUnloadable, verdict } from './inspect.ts'
import type { Inspected } from './inspect.ts'
import type { Io } from './io.ts'
import { paint, plural } from './style.ts'
import { tell } from './tell.ts'

interface CheckOptions {
  readonly format: Format
  readonly fix?: boolean
  readonly fixSuggested: readonly string[]
  readonly maxWarnings?: number
  readonly watch?: boolean
}

/** How often fixes are applied before giving up: one fix may uncover the next finding. */
const FIX_ROUNDS = 10

export function checkCommand({ add }: Registrar): void {
  add(
    new Command('check')
      .description('say everything that is wrong with a declaration')
      .argument('[file]', 'the declaration, or its folder (default: pipeline.ts)')
      .option('--fix', 'apply the fixes that are safe, then check again')
      .addOption(
        new Option('--fix-suggested <id>', 'apply one suggestion by its name, such as VLA201/1; may be repeated')
          .argParser((id: string, before: readonly string[]) => [...before, id])
          .default([], 'none'),
      )
      .addOption(
        new Option('--format <format>', 'json, github (annotations in Actions) or sarif on stdout, pretty on stderr')
          .choices(FORMATS)
          .default('pretty')
          .conflicts('json'),
      )
      .addOption(new Option('--max-warnings <n>', 'exit 4 with more warnings than this').argParser(wholeNumber))
      .addOption(
        new Option(
          '--watch',
          'check again whenever the declaration, what it imports, the lock or data changes',
        ).conflicts(['fix', 'fixSuggested']),
      ),
    async (args, options, io) => {
      const { format, watch: isWatching, json, ...rest } = options as unknown as CheckOptions & { json?: boolean }
      const look = (): Promise<Outcome> => inFormat(format, orUnloadable(check(args[0], rest, io), unread), io)
      if (isWatching !== true) return look()
      const { watch } = await import('./watch.ts')
      const isJson = json === true || format === 'json'
      return watch(declarationFile(args[0], io.cwd), look, (outcome) => tell('check', outcome, isJson, io), io)
    },
  )
}

const unread = { file: null, plan: null, lockWritten: false, fixed: [] }

function wholeNumber(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('Give a whole number.')
  return Number(value)
}

async function check(file: string | undefined, options: Omit<CheckOptions, 'format'>, io: Io): Promise<Outcome> {
  let inspected = await inspect(file, io)
  let diagnostics = await located(inspected, io)
  let { lockWritten } = inspected
  const fixed: { label: string; file: string }[] = []
  const apply = async (fixes: readonly LocatedFix[], all: boolean): Promise<number> => {
    const applied = await applyTo(fixes, all, io)
    if (applied.length === 0) return 0
    fixed.push(...applied.map(({ label, textEdits }) => ({ label, file: textEdits?.[0]?.file ?? '' })))
    inspected = await inspect(file, io)
    diagnostics = await located(inspected, io)
    lockWritten ||= inspected.lockWritten
    return applied.length
  }
  if (options.fixSuggested.length > 0) await apply(suggested(options.fixSuggested, diagnostics), true)
  for (let round = 0; options.fix === true && round < FIX_ROUNDS; round++) {
    const { safeFixes } = await import('../locate/apply.ts')
    if ((await apply(safeFixes(diagnostics), false)) === 0) break
  }
  const { plan } = inspected
  return {
    exit: verdict(diagnostics, options.maxWarnings),
    data: {
      file: inspected.file,
      plan: plan === undefined ? null : { hash: plan.hash, name: plan.pipeline.name },
      lockWritten,
      fixed,
    },
    diagnostics,
    summary: summary(inspected, lockWritten, fixed, diagnostics, io),
    files: inspected.files,
  }
}

/** The suggestions of these names. */
function suggested(names: readonly string[], diagnostics: readonly Diagnostic[]): LocatedFix[] {
  const all = diagnostics.flatMap(({ fixes }) => fixes).filter(({ name }) => name !== null)
  return [...new Set(names)].map((name) => {
    const found = all.find((fix) => fix.name === name.toUpperCase())
    if (found !== undefined) return found
    throw new CannotDo(
      `There is no suggestion ${name} here.`,
      all.length === 0
        ? 'vla check shows suggestions below their finding; now there are none.'
        : `Those that can be applied: ${all.map((fix) => `${String(fix.name)} (${fix.label})`).join(', ')}.`,
    )
  })
}

/**
 * Applies fixes to the files of the user. Of two that change the same text, the second is left out.
 *
 * @throws CannotDo where none may be left out and one would be; then nothing is written.
 */
async function applyTo(fixes: readonly LocatedFix[], all: boolean, io: Io): Promise<readonly LocatedFix[]> {
  const { applyFixes } = await import('../locate/apply.ts')
  const files = [...new Set(fixes.flatMap(({ textEdits }) => textEdits ?? []).map((edit) => edit.file))]
  const texts = new Map<string, string>()
  for (const file of files) texts.set(file, await readFile(resolve(io.cwd, file), 'utf8'))
  const { files: changed, applied, skipped } = applyFixes(fixes, (file) => texts.get(file) ?? '')
  if (all && skipped.length > 0)
    throw new CannotDo(
      `Nothing was applied: ${skipped.map(({ name }) => name).join(', ')} changes the same text as another of them.`,
      'Apply one of them, and take the names of the others from the next report.',
    )
  for (const [file, text] of changed) await writeFile(resolve(io.cwd, file), text)
  return applied
}

function summary(
  inspected: Inspected,
  lockWritten: boolean,
  fixed: readonly { label: string; file: string }[],
  diagnostics: readonly Diagnostic[],
  io: Io,
): string {
  const lines = fixed.map(({ label, file }) => `${paint(io, 'green', 'fixed')}  ${file}: ${label}`)
  if (lockWritten) lines.push('vla.lock.json was written: commit it.')
  if (diagnostics.length === 0) {
    const hash = inspected.plan === undefined ? '' : `, plan ${inspected.plan.hash.slice(0, 8)}`
    lines.push(`${paint(io, 'green', 'ok')}  ${plural(0, 'finding')}${hash}`)
  }
  return lines.join('\n')
}

/** The outcome with its diagnostics as data on stdout, where a form for machines was asked for. */
async function inFormat(format: Format, work: Promise<Outcome>, io: Io): Promise<Outcome> {
  if (format === 'pretty' || format === 'json') return work
  const { asGithub, asSarif, errorForGithub } = await import('./formats.ts')
  try {
    const outcome = await work
    const { diagnostics = [], exit, data } = outcome
    const { summary: counts } = await import('../locate/render.ts')
    const file = typeof data['file'] === 'string' ? data['file'] : (diagnostics[0]?.file ?? io.cwd)
    const text = await (format === 'github'
      ? asGithub(diagnostics, { cwd: io.cwd, file })
      : asSarif(diagnostics, { cwd: io.cwd, file, exit }))
    const told = diagnostics.length === 0 ? [] : [counts(diagnostics, { colour: io.color })]
    const summary = [...told, outcome.summary ?? ''].filter((line) => line !== '').join('\n')
    return { ...outcome, diagnostics: [], text, summary }
  } catch (error) {
    if (format === 'github' && error instanceof CannotDo) io.stdout.write(await errorForGithub(error.message))
    throw error
  }
}
