/** What check, plan, build, lock and rules begin with: the declaration is read, locked, resolved and judged. */
import { dirname } from 'node:path'
import type { Finding } from '../finding/finding.ts'
import type { Diagnostic } from '../locate/diagnostic.ts'
import type { Lock } from '../lock/lock.ts'
import type { Plan } from '../plan/plan.ts'
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
}

/** The file cannot be loaded, or exports something else: nothing of it can be judged. */
class Unloadable extends Error {
  override readonly name = 'Unloadable'
  readonly diagnostic: Diagnostic

  constructor(diagnostic: Diagnostic) {
    super(diagnostic.message)
    this.diagnostic = diagnostic
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
  const loaded = await loadDeclaration(file).catch(async (thrown: unknown) => {
    const { loadFailure } = await import('../locate/load-failure.ts')
    throw new Unloadable(loadFailure(thrown, { file, root: io.cwd }))
  })
  const { value } = loaded
  if (typeof value !== 'object' || value === null || !(Symbol.for('vla.pipeline') in value)) {
    const { notAPipeline } = await import('../locate/load-failure.ts')
    throw new Unloadable(notAPipeline(value, { file, root: io.cwd }))
  }
  return { file, folder: dirname(file), declaration: value }
}

/** Loads, locks, resolves and judges the declaration. Writes vla.lock.json where it lacks what is at hand. */
export async function inspect(argument: string | undefined, io: Io): Promise<Inspected> {
  // Before the declaration is loaded: from then on every module passes through the loader that reads TypeScript, which takes time.
  const [{ parseDeclaration }, { loadLock, writeLock }, { resolve }, { runRules }] = await Promise.all([
    import('../declare/parse.ts'),
    import('../lock/make.ts'),
    import('../resolve/resolve.ts'),
    import('../rules/run.ts'),
  ])
  const from = await read(argument, io)
  const parsed = parseDeclaration(from.declaration)
  const locked = loadLock(from.declaration, from.folder)
  const resolved = resolve(parsed.declaration, locked.lock, parsed)
  const reported = [...parsed.findings, ...locked.findings, ...resolved.findings]
  const findings = resolved.plan === undefined ? reported : [...reported, ...runRules(resolved.plan, { reported })]
  const lockWritten = locked.missing && locked.lock !== undefined && writeLock(from.folder, locked.lock)
  return { ...from, plan: resolved.plan, lock: locked.lock, lockWritten, findings }
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
    if (error instanceof Unloadable) return { exit: EXIT.failed, data, diagnostics: [error.diagnostic] }
    throw error
  }
}
