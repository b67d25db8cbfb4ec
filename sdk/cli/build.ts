/** `vla build`: writes the Python project of a declaration. */
import { basename, join, relative, resolve, sep } from 'node:path'
import { Command } from 'commander'
import type { Change, WriteReport } from '../emit/write.ts'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import type { ExitCode } from './exit-codes.ts'
import { inspect, located, orUnloadable, verdict } from './inspect.ts'
import type { Io } from './io.ts'
import { packageFolder, version } from './package.ts'
import { paint, plural } from './style.ts'

interface Options {
  readonly out: string
  readonly check?: boolean
  readonly diff?: boolean
}

export function buildCommand({ add }: Registrar): void {
  add(
    new Command('build')
      .description('write the Python project: training script, launch commands, packaging')
      .argument('[file]', 'the declaration, or its folder (default: pipeline.ts)')
      .option('--out <dir>', 'folder of the project', 'build')
      .option('--check', 'write nothing; exit 5 where the folder is not what would be written')
      .option('--diff', 'write nothing; print what would change as a unified diff')
      .addHelpText(
        'after',
        '\nFiles that you edited and files that are not ours are never overwritten: the build then writes nothing and says which.',
      ),
    async (args, options, io) => orUnloadable(build(args[0], options as unknown as Options, io), nothing),
  )
}

const nothing = { file: null, out: null, planHash: null, changes: [], written: false, stale: false, lockWritten: false }

async function build(file: string | undefined, options: Options, io: Io): Promise<Outcome> {
  const inspected = await inspect(file, io)
  const diagnostics = await located(inspected, io)
  const { plan, lockWritten } = inspected
  const out = resolve(io.cwd, options.out)
  const data = { ...nothing, file: inspected.file, out, planHash: plan?.hash ?? null, lockWritten }
  if (plan === undefined || verdict(inspected.findings, undefined) !== EXIT.ok) {
    return { exit: EXIT.findings, data, diagnostics, summary: 'Nothing was built.' }
  }

  const [{ emit }, { readTemplates }, { writeProject }, { PlanIncomplete }] = await Promise.all([
    import('../emit/emit.ts'),
    import('../emit/runtime.ts'),
    import('../emit/write.ts'),
    import('../emit/project.ts'),
  ])
  const sourceFolder = relative(out, inspected.folder).split(sep).join('/')
  const templates = await readTemplates(join(packageFolder, 'templates/runtime'))
  const files = (() => {
    try {
      return emit(plan, {
        version,
        source: basename(inspected.file),
        sourceFolder: sourceFolder === '' ? '.' : sourceFolder,
        templates,
      })
    } catch (error) {
      if (!(error instanceof PlanIncomplete)) throw error
      const missing = [...error.missing].map(([pointer, because]) => `  ${pointer}: ${because}`)
      throw new CannotDo(
        ['The project cannot be written, because the plan leaves open what it needs:', ...missing].join('\n'),
        'Bring the data and weights to this machine and run vla lock, or copy a vla.lock.json that knows them.',
      )
    }
  })()
  const mode = options.diff === true ? 'diff' : options.check === true ? 'check' : 'write'
  const report = await writeProject({ out, files, tool: `vla ${version}`, planHash: plan.hash, mode })
  const diffs = report.changes.map(({ diff }) => diff).filter((diff) => diff !== '')
  return {
    exit: exitOf(report, options),
    data: { ...data, changes: report.changes, written: report.written, stale: report.stale },
    diagnostics,
    ...(options.diff === true ? { text: diffs.join('\n') } : {}),
    summary: summary(report, options, relative(io.cwd, out) || '.', io),
  }
}

function exitOf(report: WriteReport, options: Options): ExitCode {
  if (report.blocked.some(({ action }) => action === 'refused')) return EXIT.failed
  if (report.blocked.length > 0) return EXIT.stale
  return options.check === true && report.stale ? EXIT.stale : EXIT.ok
}

function summary(report: WriteReport, options: Options, out: string, io: Io): string {
  const looking = options.check === true || options.diff === true
  const lines: string[] = []
  for (const change of report.changes) {
    if (change.action === 'unchanged') continue
    lines.push(`  ${change.action.padEnd(8)}  ${change.path}${change.message === '' ? '' : `: ${change.message}`}`)
    if (change.action === 'conflict' && options.diff !== true) lines.push('', ...colored(change, io), '')
  }
  const total = plural(report.changes.length, 'file')
  if (report.blocked.length > 0) {
    const edited = report.blocked.every(({ action }) => action === 'conflict')
    lines.push(
      edited
        ? `${out} was edited by hand; nothing was written.`
        : `Something in ${out} is not ours to change; nothing was written.`,
    )
  } else if (!report.stale) lines.push(`${paint(io, 'green', 'ok')}  ${out} is up to date (${total})`)
  else if (looking) lines.push(`${out} is not what vla build would write.`)
  else lines.push(`${paint(io, 'green', 'built')}  ${out} (${total})`)
  return lines.join('\n')
}

function colored(change: Change, io: Io): string[] {
  return change.diff
    .trimEnd()
    .split('\n')
    .map((line) => {
      if (line.startsWith('+')) return paint(io, 'green', line)
      return line.startsWith('-') ? paint(io, 'red', line) : line
    })
}
