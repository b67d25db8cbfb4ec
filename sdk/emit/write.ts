/**
 * Puts emitted files on disk without ever touching what is not ours.
 *
 * `.vla/manifest.json` says which files we wrote and what was in them. A managed file that nobody touched is replaced; one that was
 * edited is a conflict; a file that was there before us is refused. The manifest itself is not trusted: its paths are checked like
 * any other, and nothing outside the folder or behind a symbolic link is read, written or deleted.
 */
import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir, readFile, realpath, rename, rmdir, unlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createTwoFilesPatch } from 'diff'
import * as z from 'zod'
import type { EmittedFile, EmittedFiles } from './emitted.ts'

export const manifestPath = '.vla/manifest.json'

const manifestSchema = z.strictObject({
  tool: z.string(),
  planHash: z.string(),
  files: z.record(
    z.string(),
    z.strictObject({ sha256: z.string().regex(/^[0-9a-f]{64}$/), kind: z.enum(['managed', 'scaffold']) }),
  ),
})
type Manifest = z.infer<typeof manifestSchema>

/**
 * - `unchanged`: on disk as it should be (a scaffold: whatever its owner made of it)
 * - `create`, `replace`, `delete`: ours to do
 * - `keep`: no longer produced, but edited: it stays and is the user's from now on
 * - `conflict`: ours, but edited by hand
 * - `refused`: not ours, or not safe
 */
type Action = 'unchanged' | 'create' | 'replace' | 'delete' | 'keep' | 'conflict' | 'refused'

export interface Change {
  readonly path: string
  readonly action: Action
  /** One sentence for `keep`, `conflict` and `refused`. */
  readonly message: string
  /** Unified diff from the disk to what would be written; for conflicts always, for other changes in mode `diff`. */
  readonly diff: string
}

export interface WriteOptions {
  /** The project's folder; made where it is missing. */
  readonly out: string
  readonly files: EmittedFiles
  /** `vla 0.1.0` */
  readonly tool: string
  readonly planHash: string
  /** `write`; or only say what would happen, without (`check`) or with all diffs (`diff`). */
  readonly mode: 'write' | 'check' | 'diff'
}

export interface WriteReport {
  readonly changes: readonly Change[]
  /** Conflicts and refusals. With one of them nothing at all is written. */
  readonly blocked: readonly Change[]
  /** Whether the disk differed from what is emitted before this call (hand-edited files included). */
  readonly stale: boolean
  /** Whether this call wrote. */
  readonly written: boolean
}

/** Compares a folder with what is emitted and, in mode `write`, brings it up to date. All or nothing where something is in the way. */
export async function writeProject(options: WriteOptions): Promise<WriteReport> {
  const root = await realRoot(options.out)
  if (root === undefined) return blockedBy(refusal(options.out, `${options.out} is not a folder`))
  const changes: Change[] = []
  const known = await readManifest(root)
  if (typeof known === 'string') return blockedBy(refusal(manifestPath, known))

  for (const [file, emitted] of options.files) {
    if (file === manifestPath) throw new Error(`${manifestPath} is written here, not emitted`)
    changes.push(await compare(root, file, emitted, known, options.mode))
  }
  for (const [file, entry] of Object.entries(known.files)) {
    if (!options.files.has(file) && entry.kind === 'managed')
      changes.push(...(await leftOver(root, file, entry.sha256, options.mode)))
  }
  changes.sort((a, b) => (a.path < b.path ? -1 : 1))

  const next = manifest(options)
  const current = await look(root, manifestPath)
  const manifestStale = current.state !== 'file' || current.content.toString('utf8') !== next
  const blocked = changes.filter((change) => change.action === 'conflict' || change.action === 'refused')
  const stale = manifestStale || changes.some((change) => change.action !== 'unchanged')
  if (options.mode !== 'write' || blocked.length > 0) return { changes, blocked, stale, written: false }

  for (const change of changes) {
    const emitted = options.files.get(change.path)
    if ((change.action === 'create' || change.action === 'replace') && emitted !== undefined)
      await put(root, change.path, emitted)
    if (change.action === 'delete') await remove(root, change.path)
  }
  if (manifestStale) await put(root, manifestPath, { content: next, kind: 'managed' })
  return { changes, blocked, stale, written: stale }
}

/** The manifest as it is written: paths sorted, hashes of what we emitted (not of what a user made of a scaffold). */
function manifest(options: Pick<WriteOptions, 'files' | 'tool' | 'planHash'>): string {
  const files = [...options.files]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([file, { content, kind }]) =>
        `    ${JSON.stringify(file)}: { "sha256": "${sha256(content)}", "kind": "${kind}" }`,
    )
  return `{\n  "tool": ${JSON.stringify(options.tool)},\n  "planHash": ${JSON.stringify(options.planHash)},\n  "files": {\n${files.join(',\n')}\n  }\n}\n`
}

type Entry = { state: 'missing' } | { state: 'file'; content: Buffer } | { state: 'unsafe'; message: string }

/** What stands at a path of the project, looking behind no symbolic link. */
async function look(root: string, file: string): Promise<Entry> {
  const problem = pathProblem(file)
  if (problem !== undefined) return { state: 'unsafe', message: problem }
  const steps = file.split('/')
  for (let depth = 1; depth <= steps.length; depth++) {
    const here = path.join(root, ...steps.slice(0, depth))
    const found = await lstat(here).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    })
    if (found === undefined) return { state: 'missing' }
    const name = steps.slice(0, depth).join('/')
    if (found.isSymbolicLink())
      return { state: 'unsafe', message: `${name} is a symbolic link; nothing is read or written through it` }
    if (depth < steps.length && !found.isDirectory()) return { state: 'unsafe', message: `${name} is not a folder` }
    if (depth === steps.length && !found.isFile()) return { state: 'unsafe', message: `${name} is not a file` }
  }
  return { state: 'file', content: await readFile(path.join(root, ...steps)) }
}

/** Why a path may not be used, or nothing. */
function pathProblem(file: string): string | undefined {
  const steps = file.split('/')
  const inside =
    file !== '' &&
    !/[\0\\]/.test(file) &&
    !path.posix.isAbsolute(file) &&
    !path.win32.isAbsolute(file) &&
    !/^[A-Za-z]:/.test(file) &&
    steps.every((step) => step !== '' && step !== '.' && step !== '..')
  return inside ? undefined : `${JSON.stringify(file)} does not lie in the project's folder`
}

async function compare(
  root: string,
  file: string,
  emitted: EmittedFile,
  known: Manifest,
  mode: WriteOptions['mode'],
): Promise<Change> {
  const disk = await look(root, file)
  if (disk.state === 'unsafe') return refusal(file, disk.message)
  if (disk.state === 'missing') return change(file, 'create', mode === 'diff' ? unified(file, '', emitted.content) : '')
  const text = disk.content.toString('utf8')
  if (emitted.kind === 'scaffold' || text === emitted.content) return change(file, 'unchanged', '')
  const entry = Object.hasOwn(known.files, file) ? known.files[file] : undefined
  if (entry === undefined)
    return refusal(file, `${file} was here before and is not ours: move it away, or build into another folder`)
  const difference = unified(file, text, emitted.content)
  if (entry.kind === 'managed' && entry.sha256 !== sha256(disk.content)) {
    const message = `${file} was edited by hand. What must stay belongs in pipeline.ts or hooks.py; delete the file to have it written again`
    return { path: file, action: 'conflict', message, diff: difference }
  }
  if (entry.kind === 'scaffold')
    return refusal(file, `${file} was given to you as yours and would now be overwritten: move it away`)
  return change(file, 'replace', mode === 'diff' ? difference : '')
}

/** A file that we wrote once and do not produce any more. */
async function leftOver(root: string, file: string, hash: string, mode: WriteOptions['mode']): Promise<Change[]> {
  const disk = await look(root, file)
  if (disk.state === 'missing') return []
  if (disk.state === 'unsafe') return [refusal(file, `${manifestPath} names ${file}: ${disk.message}`)]
  if (sha256(disk.content) === hash)
    return [change(file, 'delete', mode === 'diff' ? unified(file, disk.content.toString('utf8'), '') : '')]
  return [
    {
      path: file,
      action: 'keep',
      message: `${file} is no longer generated but was edited by hand: it stays, and is yours from now on`,
      diff: '',
    },
  ]
}

async function readManifest(root: string): Promise<Manifest | string> {
  const found = await look(root, manifestPath)
  if (found.state === 'missing') return { tool: '', planHash: '', files: {} }
  if (found.state === 'unsafe') return found.message
  try {
    return manifestSchema.parse(JSON.parse(found.content.toString('utf8')))
  } catch {
    return `${manifestPath} cannot be read: restore it, or build into an empty folder`
  }
}

/** The folder with its own symbolic links resolved, since where the project lies is the user's choice; nothing where it is no folder. */
async function realRoot(out: string): Promise<string | undefined> {
  try {
    const root = await realpath(out)
    return (await lstat(root)).isDirectory() ? root : undefined
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return path.resolve(out)
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Writes beside the file and renames: a reader sees the old content or the new one. */
async function put(root: string, file: string, emitted: EmittedFile): Promise<void> {
  const target = path.join(root, ...file.split('/'))
  const temporary = `${target}.${process.pid}.vla-tmp`
  await mkdir(path.dirname(target), { recursive: true })
  try {
    await writeFile(temporary, emitted.content, { flag: 'wx' })
    if (emitted.executable) await chmod(temporary, 0o755)
    await rename(temporary, target)
  } catch (error) {
    await unlink(temporary).catch(() => undefined)
    throw error
  }
}

/** Deletes a file, and the folders that are empty without it. */
async function remove(root: string, file: string): Promise<void> {
  await unlink(path.join(root, ...file.split('/')))
  for (let folder = path.posix.dirname(file); folder !== '.'; folder = path.posix.dirname(folder)) {
    const gone = await rmdir(path.join(root, ...folder.split('/'))).then(
      () => true,
      () => false, // not empty: somebody's files are in it
    )
    if (!gone) return
  }
}

function change(file: string, action: Action, diff: string): Change {
  return { path: file, action, message: '', diff }
}

function refusal(file: string, message: string): Change {
  return { path: file, action: 'refused', message, diff: '' }
}

function blockedBy(only: Change): WriteReport {
  return { changes: [only], blocked: [only], stale: true, written: false }
}

function unified(file: string, before: string, after: string): string {
  return createTwoFilesPatch(`a/${file}`, `b/${file}`, before, after, 'on disk', 'generated')
}

function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
