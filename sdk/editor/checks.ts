/**
 * Runs `vla check` beside the editor, in a process of its own, and keeps what it said with the texts that it read.
 *
 * A declaration has to be executed to be judged, and it may throw or never end: nothing of it runs in the editor's own process.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import process from 'node:process'
import type { Diagnostic } from '../locate/diagnostic.ts'

/** What the checks need of the editor. Paths are absolute, with forward slashes. */
export interface Editor {
  /** Text of a file on disk; undefined where there is none. */
  readonly read: (file: string) => string | undefined
  readonly watch: (file: string, changed: () => void) => { close(): void }
  /** There is something new to show. */
  readonly refresh: () => void
  readonly log: (message: string) => void
}

/** Texts by path. */
type Texts = ReadonlyMap<string, string | undefined>

interface Pipeline {
  /** What the last check read, or the running one reads. */
  texts: Texts
  /** Absent until that check has ended. */
  findings: readonly Diagnostic[] | undefined
  child: ChildProcess | undefined
  timer: NodeJS.Timeout | undefined
  readonly watchers: Map<string, { close(): void }>
}

/** A declaration that takes longer has a loop in it, or waits for something. A busy machine may take a minute. */
const LONGEST_CHECK_MS = 300_000
/** Editors write a file in several steps. */
const SETTLE_MS = 50

const running = new Set<ChildProcess>()
let endsWithUs = false

export class Checks {
  readonly #program: string
  readonly #editor: Editor
  readonly #pipelines = new Map<string, Pipeline>()

  /** @param program the command line's bin.js */
  constructor(program: string, editor: Editor) {
    this.#program = program
    this.#editor = editor
  }

  /**
   * Sees to it that the findings of a pipeline are those of what is saved: starts a check where the saved texts are others than those
   * of the last one. Returns at once.
   *
   * @param files the pipeline and the user's files that it imports
   */
  ask(pipeline: string, files: readonly string[]): void {
    const known = this.#pipelines.get(pipeline)
    const entry = known ?? {
      texts: new Map(),
      findings: undefined,
      child: undefined,
      timer: undefined,
      watchers: new Map(),
    }
    this.#pipelines.set(pipeline, entry)
    const texts = this.#read([...files, lockOf(pipeline)])
    if (known !== undefined && sameTexts(known.texts, texts)) return
    this.#watch(pipeline, entry, [...texts.keys()])
    entry.texts = texts
    this.#check(pipeline, entry)
  }

  /** The findings in a file whose text is `text`; none where other text was checked, since their places would be wrong. */
  about(file: string, text: string): Diagnostic[] {
    return [...this.#pipelines.values()].flatMap(({ texts, findings }) =>
      texts.get(file) === text ? (findings ?? []).filter((finding) => finding.file === file) : [],
    )
  }

  /** Whether `text` is what the findings about `file` speak of. */
  isChecked(file: string, text: string | undefined): boolean {
    return text !== undefined && [...this.#pipelines.values()].some(({ texts }) => texts.get(file) === text)
  }

  close(): void {
    for (const entry of this.#pipelines.values()) {
      entry.child?.kill('SIGKILL')
      entry.child = undefined
      clearTimeout(entry.timer)
      for (const watcher of entry.watchers.values()) watcher.close()
    }
    this.#pipelines.clear()
  }

  #read(files: readonly string[]): Texts {
    return new Map(files.map((file) => [file, this.#editor.read(file)]))
  }

  #watch(pipeline: string, entry: Pipeline, files: readonly string[]): void {
    for (const [file, watcher] of entry.watchers) {
      if (files.includes(file)) continue
      watcher.close()
      entry.watchers.delete(file)
    }
    for (const file of files) {
      if (entry.watchers.has(file)) continue
      const changed = (): void => {
        clearTimeout(entry.timer)
        entry.timer = setTimeout(() => {
          this.ask(
            pipeline,
            [...entry.texts.keys()].filter((other) => other !== lockOf(pipeline)),
          )
        }, SETTLE_MS)
      }
      entry.watchers.set(file, this.#editor.watch(file, changed))
    }
  }

  #check(pipeline: string, entry: Pipeline): void {
    entry.child?.kill('SIGKILL')
    entry.child = undefined
    entry.findings = undefined
    if (entry.texts.get(pipeline) === undefined) return // not saved yet
    const cwd = path.dirname(pipeline)
    const child = spawn(process.execPath, [this.#program, 'check', pipeline, '--json'], {
      cwd,
      // Where the editor is an Electron program, it is its own Node.
      env: { ...process.env, ELECTRON_RUN_AS_NODE: '1' },
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: LONGEST_CHECK_MS,
      killSignal: 'SIGKILL',
      windowsHide: true,
    })
    entry.child = child
    endWithUs(child)
    const output: Buffer[] = []
    child.stdout.on('data', (part: Buffer) => output.push(part))
    child.on('error', (error) => {
      this.#editor.log(`vla check could not be started: ${error.message}`)
    })
    child.on('close', (code, signal) => {
      running.delete(child)
      if (entry.child !== child) return // a newer one has begun
      entry.child = undefined
      entry.findings = this.#findings(Buffer.concat(output).toString('utf8'), cwd, code ?? signal)
      // The check writes the lock itself. What else has changed under it is looked at again.
      const lock = lockOf(pipeline)
      entry.texts = new Map(entry.texts).set(lock, this.#editor.read(lock))
      this.ask(
        pipeline,
        [...entry.texts.keys()].filter((file) => file !== lock),
      )
      this.#editor.refresh()
    })
  }

  /** The diagnostics that a check printed, with absolute paths. */
  #findings(output: string, cwd: string, end: number | string | null): readonly Diagnostic[] {
    try {
      const { diagnostics } = JSON.parse(output) as { diagnostics: Diagnostic[] }
      const absolute = <T extends { readonly file: string }>(place: T): T => ({
        ...place,
        file: fullName(cwd, place.file),
      })
      return diagnostics.map((diagnostic) => ({
        ...absolute(diagnostic),
        related: diagnostic.related.map(absolute),
        fixes: diagnostic.fixes.map((fix) => ({ ...fix, textEdits: fix.textEdits?.map(absolute) ?? null })),
      }))
    } catch {
      this.#editor.log(`vla check said nothing that can be shown (${String(end)}): ${output.slice(0, 400)}`)
      return []
    }
  }
}

/** Ends a check that is running when the editor's process ends. */
function endWithUs(child: ChildProcess): void {
  running.add(child)
  if (endsWithUs) return
  endsWithUs = true
  process.once('exit', () => {
    for (const each of running) each.kill('SIGKILL')
  })
}

function lockOf(pipeline: string): string {
  return fullName(path.dirname(pipeline), 'vla.lock.json')
}

function fullName(folder: string, file: string): string {
  return path.resolve(folder, file).split(path.sep).join('/')
}

function sameTexts(a: Texts, b: Texts): boolean {
  return a.size === b.size && [...a].every(([file, text]) => b.has(file) && b.get(file) === text)
}
