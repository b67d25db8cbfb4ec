/** What check, plan, build, lock and rules begin with: the declaration is read, locked, resolved and judged. */
import { dirname } from 'node:path'
import type { Finding } from '../finding/finding.ts'
import type { Diagnostic } from '../locate/diagnostic.ts'
import type { Lock } from '../lock/lock.ts'
import type { Plan } from '../plan/plan.ts'
import type { Verdict } from '../rules/run.ts'
import type { Outcome } from './command.ts'
import { EXIT } from './exit-codes.ts'
import type { ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { declarationFile, loadDeclaration } from './load.ts'

/** What the declaration's file gave, before anything is judged. */
export interface Read {
  /** Absolute path of pipeline.ts. */
  readonly file: string
  /** Its folder: where relative paths of the declaration start, and vla.lock.json lies. */
  readonly folder: string
  /** Absolute paths of the user's files that it consists of. */
  readonly files: readonly string[]
  /** The default export. */
  readonly declaration: unknown
}

export interface Inspected extends Read {
  readonly plan: Plan | undefined
  /** What the plan was made with. */
  readonly lock: Lock | undefined
  /** Whether this look wrote vla.lock.json. */
  readonly lockWritten: boolean
  readonly findings: readonly Finding[]
  /** Rule id -> why it could not look, or not everywhere. */
  readonly unseen: Verdict['unseen']
}

/** The file cannot be loaded, or exports something else: nothing of it can be judged. */
class Unloadable extends Error {
  override readonly name = 'Unloadable'
  readonly diagnostic: Diagnostic
  /** Absolute paths of the user's files that were loaded or looked for. */
  readonly files: readonly string[]

  constructor(diagnostic: Diagnostic, files: readonly string[]) {
    super(diagnostic.message)
    this.diagnostic = diagnostic
    this.files = files
  }
}

/**
 * Loads the declaration.
 *
 * @param argument The file or folder that the user named, if any.
 * @throws CannotDo where there is no such file. Unloadable where it cannot be loaded or exports no pipeline.
 */
export async function read(argument: string | undefined, io: Io): Promise<Read> {
  const file = declarationFile(argument, io.cwd)
  const loaded = await loadDeclaration(file)
  const { files } = loaded
  if (loaded.thrown !== undefined) {
    const { loadFailure } = await import('../locate/load-failure.ts')
    throw new Unloadable(loadFailure(loaded.thrown.error, { file, root: io.cwd }), files)
  }
  const { value } = loaded
  if (typeof value !== 'object' || value === null || !(Symbol.for('vla.pipeline') in value)) {
    const { notAPipeline } = await import('../locate/load-failure.ts')
    throw new Unloadable(notAPipeline(value, { file, root: io.cwd }), files)
  }
  return { file, folder: dirname(file), files, declaration: value }
}

/** Loads, locks, resolves and judges the declaration. Writes vla.lock.json where it lacks what is at hand. */
export async function inspect(argument: string | undefined, io: Io): Promise<Inspected> {
  // Before the declaration is loaded: from then on every module passes through the loader that reads TypeScript, which takes time.
  const [{ parseDeclaration }, { loadLock, writeLock }, { lockedFiles }, { resolve }, { lookAt }] = await Promise.all([
    import('../declare/parse.ts'),
    import('../lock/make.ts'),
    import('../lock/files.ts'),
    import('../resolve/resolve.ts'),
    import('../rules/run.ts'),
  ])
  const from = await read(argument, io)
  const parsed = parseDeclaration(from.declaration)
  const locked = loadLock(from.declaration, from.folder)
  const resolved = resolve(parsed.declaration, locked.lock, parsed)
  const reported = [...parsed.findings, ...locked.findings, ...resolved.findings]
  const looked = resolved.plan === undefined ? undefined : lookAt(resolved.plan, { reported })
  const findings = [...reported, ...(looked?.findings ?? [])]
  const lockWritten = locked.missing && locked.lock !== undefined && writeLock(from.folder, locked.lock)
  const files = [...from.files, ...lockedFiles(from.declaration, from.folder)]
  return {
    ...from,
    files,
    plan: resolved.plan,
    lock: locked.lock,
    lockWritten,
    findings,
    unseen: looked?.unseen ?? new Map(),
  }
}

/** The findings with their places. Loads the TypeScript parser only where there is something to say. */
export async function located(
  inspected: Pick<Inspected, 'file' | 'declaration' | 'findings'>,
  io: Io,
): Promise<Diagnostic[]> {
  if (inspected.findings.length === 0) return []
  const { locate } = await import('../locate/locate.ts')
  return locate(inspected.findings, { file: inspected.file, declaration: inspected.declaration, root: io.cwd })
}

/** Code 4 for errors, or for more warnings than allowed; else 0. */
export function verdict(findings: readonly Pick<Finding, 'severity'>[], maxWarnings: number | undefined): ExitCode {
  const warnings = findings.filter(({ severity }) => severity === 'warning').length
  const errors = findings.some(({ severity }) => severity === 'error')
  return errors || (maxWarnings !== undefined && warnings > maxWarnings) ? EXIT.findings : EXIT.ok
}

/** Runs an action; a file that cannot be loaded is told as its diagnostic, with the fields that `--json` promises. */
export async function orUnloadable(work: Promise<Outcome>, data: Outcome['data']): Promise<Outcome> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Unloadable)
      return { exit: EXIT.failed, data, diagnostics: [error.diagnostic], files: error.files }
    throw error
  }
}
