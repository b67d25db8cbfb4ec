/** `vla check`: says everything that is wrong with a declaration. */
import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Diagnostic } from '../locate/diagnostic.ts'
import type { Outcome, Registrar } from './command.ts'
import { inspect, located, orUnloadable, verdict } from './inspect.ts'
import type { Inspected } from './inspect.ts'
import type { Io } from './io.ts'
import { paint, plural } from './style.ts'

interface Options {
  readonly fix?: boolean
  readonly maxWarnings?: number
}

/** How often fixes are applied before giving up: one fix may uncover the next finding. */
const FIX_ROUNDS = 10

export function checkCommand({ add }: Registrar): void {
  add(
    new Command('check')
      .description('say everything that is wrong with a declaration')
      .argument('[file]', 'the declaration, or its folder (default: pipeline.ts)')
      .option('--fix', 'apply the fixes that are safe, then check again')
      .addOption(new Option('--max-warnings <n>', 'exit 4 with more warnings than this').argParser(wholeNumber)),
    async (args, options, io) =>
      orUnloadable(check(args[0], options, io), { file: null, plan: null, lockWritten: false, fixed: [] }),
  )
}

function wholeNumber(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('Give a whole number.')
  return Number(value)
}

async function check(file: string | undefined, options: Options, io: Io): Promise<Outcome> {
  let inspected = await inspect(file, io)
  let diagnostics = await located(inspected, io)
  let { lockWritten } = inspected
  const fixed: { label: string; file: string }[] = []
  for (let round = 0; options.fix === true && round < FIX_ROUNDS; round++) {
    const applied = await fix(diagnostics, io)
    if (applied.length === 0) break
    fixed.push(...applied)
    inspected = await inspect(file, io)
    diagnostics = await located(inspected, io)
    lockWritten ||= inspected.lockWritten
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
  }
}

/** Applies the safe fixes to the files of the user. */
async function fix(diagnostics: readonly Diagnostic[], io: Io): Promise<{ label: string; file: string }[]> {
  const { applyFixes, safeFixes } = await import('../locate/apply.ts')
  const fixes = safeFixes(diagnostics).filter(({ textEdits }) => textEdits !== null)
  const files = [...new Set(fixes.flatMap(({ textEdits }) => textEdits ?? []).map((edit) => edit.file))]
  const texts = new Map<string, string>()
  for (const file of files) texts.set(file, await readFile(resolve(io.cwd, file), 'utf8'))
  const { files: changed, applied } = applyFixes(fixes, (file) => texts.get(file) ?? '')
  for (const [file, text] of changed) await writeFile(resolve(io.cwd, file), text)
  return applied.map(({ label, textEdits }) => ({ label, file: textEdits?.[0]?.file ?? '' }))
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
