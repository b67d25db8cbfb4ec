/** Child processes that end when we are told to end: the first signal is passed on, the second kills. */
import { readFile, readdir } from 'node:fs/promises'
import { kill } from 'node:process'
import { execa } from 'execa'
import { Interrupted } from './errors.ts'
import type { Host, StopSignal } from './host.ts'

export interface ChildOptions {
  readonly host: Host
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** `show`: both streams go to the terminal as they come. `collect`: they come back. */
  readonly output: 'show' | 'collect'
  /** Called with each piece of text on either stream where the output is collected. */
  readonly onText?: (text: string) => void
  /** The signal that is sent for a given one; by default the same. */
  readonly translate?: (signal: StopSignal) => StopSignal
}

export interface ChildResult {
  /** Exit status; null where a signal ended the child or it could not be started. */
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  /** Why it could not be started, where it could not. */
  readonly startError: string | null
}

/**
 * Runs a program to its end.
 *
 * The child gets its own process group, so that Ctrl-C in a terminal reaches it through us alone, once.
 *
 * @throws Interrupted when a signal arrived while it ran (after the child has ended).
 */
export async function runChild(file: string, args: readonly string[], options: ChildOptions): Promise<ChildResult> {
  const { host } = options
  // A terminal is handed on as it is, so that the child can draw on it; the child's stdout goes to our stderr, because ours is for data.
  const handOn = options.output === 'show' && host.terminal.isTTY
  const child = execa(file, args, {
    cwd: options.cwd ?? host.cwd,
    env: { ...definedOnly(host.env), ...options.env },
    extendEnv: false,
    reject: false,
    detached: true,
    cleanup: false,
    stdin: 'ignore',
    stdout: handOn ? 2 : 'pipe',
    stderr: handOn ? 2 : 'pipe',
    encoding: 'utf8',
    stripFinalNewline: false,
  })
  const forward = (chunk: string): void => {
    if (options.output === 'show') host.terminal.write(chunk)
    options.onText?.(chunk)
  }
  child.stdout?.setEncoding('utf8').on('data', forward)
  child.stderr?.setEncoding('utf8').on('data', forward)

  let stoppedBy: StopSignal | undefined
  const release = host.onSignal((signal) => {
    if (child.pid === undefined) return
    if (stoppedBy === undefined) {
      stoppedBy = signal
      sendTo(-child.pid, options.translate?.(signal) ?? signal)
    } else {
      void killTree(child.pid)
    }
  })
  try {
    const result = await child
    if (stoppedBy !== undefined) throw new Interrupted(stoppedBy)
    const failedToStart = result.exitCode === undefined && result.signal === undefined
    return {
      exitCode: result.exitCode ?? null,
      stdout: typeof result.stdout === 'string' ? result.stdout : '',
      stderr: typeof result.stderr === 'string' ? result.stderr : '',
      startError: failedToStart ? (result.originalMessage ?? 'it could not be started') : null,
    }
  } finally {
    release()
  }
}

/** Kills a process and everything under it; a launcher's workers live in process groups of their own. */
async function killTree(pid: number): Promise<void> {
  const children = new Map<number, number[]>()
  for (const [child, parent] of await processes()) children.set(parent, [...(children.get(parent) ?? []), child])
  const doomed = [pid]
  for (const next of doomed) doomed.push(...(children.get(next) ?? []))
  for (const each of doomed) sendTo(each, 'SIGKILL')
}

/** Every process of this machine with its parent: from /proc, or from ps where there is no /proc. */
async function processes(): Promise<[pid: number, parent: number][]> {
  const numbers = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  if (numbers.length > 0) {
    const stats = await Promise.all(numbers.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')))
    // "4711 (name, which may hold spaces and brackets) S 4710 ..."
    return stats.flatMap((stat) => {
      const parent = /^.*\) \S (\d+) /s.exec(stat)?.[1]
      return parent === undefined ? [] : [[Number.parseInt(stat, 10), Number(parent)]]
    })
  }
  const { stdout } = await execa('ps', ['-A', '-o', 'pid=,ppid='])
  return stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
}

function sendTo(pid: number, signal: NodeJS.Signals): void {
  try {
    kill(pid, signal)
  } catch (error) {
    // It has ended in the meantime, which is what was wanted.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** An environment without the variables that are not set. */
export function definedOnly(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined))
}
