/** The forms in which diagnostics are written, other than the one for people and the object of `--json`. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Diagnostic } from '../locate/diagnostic.ts'
import { EXIT } from './exit-codes.ts'
import type { ExitCode } from './exit-codes.ts'
import { version } from './package.ts'

/** `pretty` is for people, on stderr; the others write the diagnostics on stdout. */
export const FORMATS = ['pretty', 'json', 'github', 'sarif'] as const
export type Format = (typeof FORMATS)[number]

interface Place {
  /** What the names in the diagnostics are relative to. */
  readonly cwd: string
  /** The declaration: absolute, or relative to `cwd`. */
  readonly file: string
}

/** Workflow commands of GitHub Actions. */
export async function asGithub(diagnostics: readonly Diagnostic[], { cwd, file }: Place): Promise<string> {
  const [{ githubCommands }, { entryById }] = await Promise.all([
    import('../locate/github.ts'),
    import('../rules/index.ts'),
  ])
  const root = repositoryRoot(dirname(resolve(cwd, file))) ?? cwd
  return githubCommands(diagnostics, {
    fileOf: (name) => relativeTo(root, resolve(cwd, name)) ?? name,
    nameOf: (id) => entryById(id)?.name,
  })
}

/** A workflow command for what belongs to no file. */
export async function errorForGithub(message: string): Promise<string> {
  const { githubError } = await import('../locate/github.ts')
  return githubError(message)
}

/** A SARIF log. */
export async function asSarif(
  diagnostics: readonly Diagnostic[],
  { cwd, file, exit }: Place & { readonly exit: ExitCode },
): Promise<string> {
  const [{ sarifLog }, { entries }, { explain, toMarkdown }] = await Promise.all([
    import('../locate/sarif.ts'),
    import('../rules/index.ts'),
    import('../rules/page.ts'),
  ])
  const root = repositoryRoot(dirname(resolve(cwd, file))) ?? cwd
  return sarifLog(diagnostics, {
    version,
    file,
    rules: entries.map((entry) => ({
      ...entry,
      help: { text: explain(entry.id) ?? entry.fix, markdown: toMarkdown(entry, (code) => code) },
    })),
    uriOf: (name) => {
      const path = resolve(cwd, name)
      const inside = relativeTo(root, path)
      return inside === undefined ? pathToFileURL(path).href : inside.split('/').map(encodeURIComponent).join('/')
    },
    read: (name) => readText(resolve(cwd, name)),
    exitCode: exit,
    successful: exit === EXIT.ok || exit === EXIT.findings,
  })
}

/** The folder with the repository around a folder. */
function repositoryRoot(folder: string): string | undefined {
  for (let here = folder; ; here = dirname(here)) {
    if (existsSync(join(here, '.git'))) return here
    if (dirname(here) === here) return undefined
  }
}

/** With forward slashes; undefined for what lies outside. */
function relativeTo(root: string, path: string): string | undefined {
  const inside = relative(root, path)
  return inside === '' || inside.startsWith('..') || isAbsolute(inside) ? undefined : inside.split(sep).join('/')
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
