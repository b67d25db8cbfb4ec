/** `vla lock`: writes down what the declaration's datasets and weights are like. */
import { join } from 'node:path'
import { Command } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { located, orUnloadable, read, verdict } from './inspect.ts'
import type { Io } from './io.ts'
import { plural } from './style.ts'

/** Findings that locking puts right: the lock disagrees with the data, or cannot be read. */
const MENDED = new Set(['VLA023', 'VLA027'])

export function lockCommand({ add }: Registrar): void {
  add(
    new Command('lock')
      .description('write vla.lock.json: what the datasets and weights at hand are like')
      .argument('[file]', 'the declaration, or its folder (default: pipeline.ts)'),
    async (args, _options, io) =>
      orUnloadable(lock(args[0], io), { file: null, lock: null, written: false, datasets: [], weights: [] }),
  )
}

async function lock(file: string | undefined, io: Io): Promise<Outcome> {
  const from = await read(file, io)
  const { loadLock, lockFileName, writeLock } = await import('../lock/make.ts')
  const { fresh, findings } = loadLock(from.declaration, from.folder)
  const left = findings.filter(({ id }) => !MENDED.has(id))
  const diagnostics = await located({ ...from, findings: left }, io)
  const datasets = Object.keys(fresh.datasets)
  const weights = Object.keys(fresh.weights)
  const path = join(from.folder, lockFileName)
  // An empty lock says nothing; a file that holds one would only look as if somebody had locked something.
  const written = datasets.length + weights.length > 0 && writeLock(from.folder, fresh)
  const entries = [...datasets, ...weights].map((key) => `  ${key}`)
  const head =
    entries.length === 0
      ? 'Nothing is at hand to lock.'
      : `${path} ${written ? 'written' : 'is up to date'}: ${plural(datasets.length, 'dataset')}, ${plural(weights.length, 'weights directory').replace('directorys', 'directories')}`
  return {
    exit: verdict(left, undefined),
    data: { file: from.file, lock: entries.length === 0 ? null : path, written, datasets, weights },
    diagnostics,
    summary: [head, ...entries].join('\n'),
  }
}
