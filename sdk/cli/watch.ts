/** Looks again whenever a file that the last look read has changed. */
import { existsSync, statSync, watch as watchFolder } from 'node:fs'
import { dirname, relative } from 'node:path'
import { CannotDo, Interrupted } from '../python/errors.ts'
import type { Outcome } from './command.ts'
import type { Io } from './io.ts'
import { paint, plural } from './style.ts'

/** How long a save may take, from its first event on, in milliseconds: editors write, rename and set times one after the other. */
const SAVE_TIME = 20

/**
 * Never comes to an end by itself.
 *
 * @param file Absolute path of what is watched before the first look has said what it read.
 * @param look Reads everything anew.
 * @param show Tells what a look has found.
 * @throws Interrupted on a signal. CannotDo where the first look throws it, or the system gives no watch; a later look that cannot be
 *   made (the file is gone) is told, and the same files are watched on.
 */
export async function watch(
  file: string,
  look: () => Promise<Outcome>,
  show: (outcome: Outcome) => Promise<void>,
  io: Io,
): Promise<never> {
  const stop = new AbortController()
  let release = (): void => undefined
  const signal = new Promise<never>((_, reject) => {
    release = io.onSignal((name) => {
      reject(new Interrupted(name))
    })
  })
  const endless = async (): Promise<never> => {
    let before = new Map([[file, stamp(file)]])
    for (let isFirst = true; ; isFirst = false) {
      let files: readonly string[] = [...before.keys()]
      try {
        const outcome = await look()
        await show(outcome)
        files = outcome.files ?? files
      } catch (error) {
        if (isFirst || !(error instanceof CannotDo)) throw error
        io.stderr.write(`${paint(io, ['bold', 'red'], 'error')}  ${error.message}\n`)
      }
      // What was known before the look and has changed since was changed while it was read, or after.
      const known = new Map(files.map((each) => [each, before.get(each) ?? stamp(each)]))
      io.stderr.write(paint(io, 'dim', `watching ${plural(known.size, 'file')}, Ctrl-C ends\n`))
      const changed = await change(known, stop.signal)
      io.stderr.write(`\n${changed.map((each) => relative(io.cwd, each)).join(', ')} changed\n`)
      before = new Map(files.map((each) => [each, stamp(each)]))
    }
  }
  try {
    return await Promise.race([endless(), signal])
  } finally {
    stop.abort()
    release()
  }
}

/** The files that are no longer what they were, once there is one. */
async function change(known: ReadonlyMap<string, string>, signal: AbortSignal): Promise<string[]> {
  for (;;) {
    // The folders are watched before the files are compared, so that nothing happens in between.
    const watched = new AbortController()
    const event = eventIn(new Set([...known.keys()].map(nearestFolder)), AbortSignal.any([watched.signal, signal]))
    try {
      const changed = [...known].filter(([file, as]) => stamp(file) !== as).map(([file]) => file)
      if (changed.length > 0) return changed
      await event
    } finally {
      watched.abort()
    }
  }
}

/** Ends a moment after something has happened in one of the folders: a file that is saved by renaming has no watch of its own. */
function eventIn(folders: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  const event = new Promise<void>((resolve, reject) => {
    const wake = (): void => {
      setTimeout(resolve, SAVE_TIME)
    }
    for (const folder of folders) {
      try {
        watchFolder(folder, { signal }, wake).on('error', wake)
      } catch (error) {
        // A folder that has just gone is an event; its parent is watched next.
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') wake()
        else {
          const fix = 'Raise the number of files that may be watched (Linux: sysctl fs.inotify.max_user_watches).'
          reject(new CannotDo(`${folder} cannot be watched: ${(error as Error).message}`, fix))
        }
      }
    }
  })
  event.catch(() => undefined)
  return event
}

function nearestFolder(file: string): string {
  let folder = dirname(file)
  while (!existsSync(folder)) folder = dirname(folder)
  return folder
}

/** What differs after a file was written, replaced, made or deleted. */
function stamp(file: string): string {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false })
  return found === undefined ? '' : [found.mtimeNs, found.size, found.ino].join(' ')
}
