/**
 * What a failed run says, once: the rank that failed first, with its own traceback.
 *
 * When one rank fails the others follow, with errors about lost connections, so sixteen tracebacks would say one thing.
 */
import { readFile, readdir } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export interface RankFailure {
  readonly rank: number
  /** Exit status, negative for a signal; null where the launcher did not say. */
  readonly exitCode: number | null
  /** The explanation or traceback of that rank. */
  readonly text: string
  /** Other ranks that failed with it. */
  readonly others: readonly number[]
}

/** Errors that a rank has because another one has gone. */
const SECONDARY =
  /connection (?:closed|reset|refused)|broken pipe|socket timeout|SignalException|timed out waiting for|remote process exited|NCCL (?:error|timeout)|application timeout caused pair closure/i

/** The launcher's summary: `rank      : 1 (local_rank: 1)` and, after it, `exitcode  : 1 (pid: 4711)`. */
const SUMMARY = /rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: (-?\d+)/g

/**
 * Finds the rank that failed first.
 *
 * @param logs The launcher's log folder: `<run>/attempt_0/<rank>/{stdout.log,stderr.log,error.json}`.
 * @param launcher What the launcher itself wrote.
 * @returns undefined where no rank failed: then the launcher's own text is the explanation.
 */
export async function readFailure(logs: string, launcher: string): Promise<RankFailure | undefined> {
  const codes = new Map<number, number>()
  for (const match of launcher.matchAll(SUMMARY)) codes.set(Number(match[1]), Number(match[2]))
  // The launcher lists what it saw first last, under "Root Cause".
  const order = [...launcher.matchAll(SUMMARY)].map((match) => Number(match[1])).reverse()

  const folders = new Map<number, string>()
  for (const file of await listing(logs)) {
    if (basename(file) === 'stderr.log') folders.set(Number(basename(dirname(file))), join(logs, dirname(file)))
  }
  const ranks = [...new Set([...order, ...folders.keys()])]
  const failures: RankFailure[] = []
  for (const rank of ranks) {
    const folder = folders.get(rank)
    const exitCode = codes.get(rank) ?? null
    const said = folder === undefined ? undefined : await rankSays(folder)
    const text = said ?? (exitCode === null ? undefined : withoutWords(exitCode))
    if (text !== undefined && (codes.size === 0 || exitCode !== null)) {
      failures.push({ rank, exitCode, text, others: ranks.filter((other) => other !== rank && codes.has(other)) })
    }
  }
  // A rank that the launcher stopped (SIGTERM) or that lost its peers is a consequence.
  const own = failures.find(({ text, exitCode }) => !SECONDARY.test(lastLine(text)) && exitCode !== -15)
  return own ?? failures[0]
}

async function rankSays(folder: string): Promise<string | undefined> {
  const recorded = await recordedError(join(folder, 'error.json'))
  if (recorded !== undefined) return recorded
  return explanation(await textOf(join(folder, 'stderr.log')))
}

/** The last traceback of a rank, or what it said where it ended with an explanation instead. */
function explanation(stderr: string): string | undefined {
  const text = stderr.trimEnd()
  if (text === '') return undefined
  const marker = 'Traceback (most recent call last):'
  const start = text.lastIndexOf(marker)
  if (start === -1) return text.split('\n').slice(-30).join('\n')
  // Of a chain ("During handling of the above ...") the whole is told.
  const chain = /(?:direct cause of the following exception|another exception occurred):\s*$/
  let from = start
  for (let before = text.slice(0, from).trimEnd(); chain.test(before); before = text.slice(0, from).trimEnd()) {
    const earlier = before.lastIndexOf(marker)
    if (earlier === -1) break
    from = earlier
  }
  return text.slice(from)
}

async function recordedError(path: string): Promise<string | undefined> {
  const text = await textOf(path)
  if (text === '') return undefined
  try {
    const content = JSON.parse(text) as {
      message?: string | { message?: string; extraInfo?: { py_callstack?: string } }
    }
    if (typeof content.message === 'string') return content.message
    return content.message?.extraInfo?.py_callstack?.trimEnd() ?? content.message?.message
  } catch {
    return undefined // half-written by a process that died in the middle
  }
}

function withoutWords(exitCode: number): string {
  if (exitCode === -9) return 'killed by SIGKILL, without a word. That is what the kernel does when memory runs out.'
  if (exitCode < 0) return `killed by signal ${String(-exitCode)}, without a word.`
  return `ended with exit code ${String(exitCode)}, without a word.`
}

function lastLine(text: string): string {
  return text.trimEnd().split('\n').at(-1) ?? ''
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

async function listing(folder: string): Promise<string[]> {
  try {
    return await readdir(folder, { recursive: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
