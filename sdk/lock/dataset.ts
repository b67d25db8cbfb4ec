/** Reads a LeRobot v3 dataset's metadata from its folder, without Python. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sha256 } from '../plan/canonical.ts'
import { isRecord, readJsonObject, Unreadable } from './json.ts'
import type { DatasetEntry } from './lock.ts'
import { parquetRows } from './parquet.ts'

/** Something wrong with a dataset's folder. */
export type DatasetProblem =
  | { readonly kind: 'notFound'; readonly what: string; /** Nothing is there at all. */ readonly absent: boolean }
  | { readonly kind: 'otherVersion'; readonly version: string }
  | { readonly kind: 'empty' }
  | { readonly kind: 'unreadable'; readonly file: string; readonly what: string }
  /** The Parquet files of a folder hold other rows than info.json says. */
  | {
      readonly kind: 'rows'
      readonly folder: string
      readonly rows: number
      readonly of: string
      readonly said: number
    }

/** Columns that LeRobot writes by itself; of the two that show the clock the statistics are kept. */
const automatic = new Set(['episode_index', 'index', 'task_index'])

/**
 * Reads `meta/info.json` and `meta/stats.json` and the footer of every Parquet file (a recording that was never finalised lacks it). Whatever is wrong comes back as a problem; what could be read comes back all the same.
 *
 * @param folder - absolute
 */
export function readDataset(
  folder: string,
  source: { repo: string | null; revision: string | null },
): { entry: DatasetEntry | undefined; problems: DatasetProblem[] } {
  if (!isFolder(folder))
    return { entry: undefined, problems: [{ kind: 'notFound', what: 'there is no such folder', absent: true }] }
  if (!existsSync(join(folder, 'meta/info.json'))) {
    return {
      entry: undefined,
      problems: [{ kind: 'notFound', what: 'the folder has no meta/info.json', absent: false }],
    }
  }
  const problems: DatasetProblem[] = []
  const info = attempt(problems, () => readJsonObject(join(folder, 'meta/info.json'), 'meta/info.json'))
  if (info === undefined) return { entry: undefined, problems }

  const version = info.value.codebase_version
  if (typeof version !== 'string' || !/^v?3\./.test(version)) {
    return {
      entry: undefined,
      problems: [{ kind: 'otherVersion', version: typeof version === 'string' ? version : 'no version' }],
    }
  }
  const described = attempt(problems, () => describe(info.value))
  if (described === undefined) return { entry: undefined, problems }

  const empty = described.episodes === 0 || described.frames === 0
  const stats = empty
    ? undefined
    : attempt(problems, () => readJsonObject(join(folder, 'meta/stats.json'), 'meta/stats.json'))
  if (empty) problems.push({ kind: 'empty' })
  else problems.push(...tornFiles(folder, described))
  const entry: DatasetEntry = {
    ...source,
    ...described,
    codebaseVersion: version,
    fingerprint: sha256(`${info.hash}\n${stats?.hash ?? ''}\n`),
    statistics: stats === undefined ? {} : statisticsOf(stats.value, described.features),
  }
  return { entry, problems }
}

type Described = Pick<DatasetEntry, 'robotType' | 'fps' | 'episodes' | 'frames' | 'features'>

function describe(info: Record<string, unknown>): Described {
  const wrong = (what: string): never => {
    throw new Unreadable('meta/info.json', what)
  }
  const { fps, total_episodes: episodes, total_frames: frames, features, robot_type: robotType } = info
  if (typeof fps !== 'number' || !(fps > 0)) return wrong(`fps is ${JSON.stringify(fps)}, expected a positive number`)
  if (!isCount(episodes)) return wrong(`total_episodes is ${JSON.stringify(episodes)}, expected a count`)
  if (!isCount(frames)) return wrong(`total_frames is ${JSON.stringify(frames)}, expected a count`)
  if (!isRecord(features)) return wrong('features is missing')
  const read: DatasetEntry['features'] = {}
  for (const [name, value] of Object.entries(features)) {
    if (
      !isRecord(value) ||
      typeof value.dtype !== 'string' ||
      !Array.isArray(value.shape) ||
      !value.shape.every(isCount)
    ) {
      return wrong(`feature '${name}' has no dtype and shape`)
    }
    read[name] = { dtype: value.dtype, shape: value.shape, names: dimensionNames(value.names) }
  }
  return { fps, episodes, frames, features: read, robotType: typeof robotType === 'string' ? robotType : null }
}

/** LeRobot writes names as a list, or (older recorders) as `{ motors: [...] }`. */
function dimensionNames(names: unknown): string[] | null {
  const list: unknown = isRecord(names) && Object.keys(names).length === 1 ? Object.values(names)[0] : names
  return Array.isArray(list) && list.every((name) => typeof name === 'string') ? list : null
}

/** The statistics of vector features: what is not a finite number becomes null. Image statistics and counts are left out. */
function statisticsOf(stats: Record<string, unknown>, features: DatasetEntry['features']): DatasetEntry['statistics'] {
  const read: DatasetEntry['statistics'] = {}
  for (const [name, feature] of Object.entries(features)) {
    const given = stats[name]
    if (
      automatic.has(name) ||
      feature.shape.length !== 1 ||
      !/^(float|int|uint)/.test(feature.dtype) ||
      !isRecord(given)
    )
      continue
    const kept: Record<string, (number | null)[]> = {}
    for (const [statistic, value] of Object.entries(given)) {
      if (statistic === 'count') continue
      const list: unknown[] = Array.isArray(value) ? value : [value]
      kept[statistic] = list.map((number) => (typeof number === 'number' && Number.isFinite(number) ? number : null))
    }
    read[name] = kept
  }
  return read
}

/** Parquet files without a footer, folders that should hold files and hold none, and rows that are not what info.json says. */
function tornFiles(folder: string, described: Described): DatasetProblem[] {
  const problems: DatasetProblem[] = []
  const cameras = Object.entries(described.features).filter(([, feature]) => feature.dtype === 'video')
  for (const [part, of, said] of [
    ['data', 'frames', described.frames],
    ['meta/episodes', 'episodes', described.episodes],
  ] as const) {
    const files = filesBelow(folder, part, '.parquet')
    if (files.length === 0) problems.push({ kind: 'unreadable', file: `${part}/`, what: 'it holds no Parquet file' })
    const rows = files.map((file) => attempt(problems, () => parquetRows(join(folder, file), file)))
    const sum = rows.reduce<number | undefined>(
      (total, each) => (total === undefined || each === undefined ? undefined : total + each),
      0,
    )
    if (files.length > 0 && sum !== undefined && sum !== said)
      problems.push({ kind: 'rows', folder: `${part}/`, rows: sum, of, said })
  }
  attempt(problems, () => parquetRows(join(folder, 'meta/tasks.parquet'), 'meta/tasks.parquet'))
  for (const [camera] of cameras) {
    const part = `videos/${camera}`
    if (filesBelow(folder, part, '.mp4').length === 0)
      problems.push({ kind: 'unreadable', file: `${part}/`, what: 'it holds no video' })
  }
  return problems
}

/** Files with an extension in `part` and its `chunk-*` folders, sorted, relative to `folder`. */
function filesBelow(folder: string, part: string, extension: string): string[] {
  let names: string[]
  try {
    names = readdirSync(join(folder, part), { recursive: true, encoding: 'utf8' })
  } catch {
    return []
  }
  return names
    .filter((name) => name.endsWith(extension))
    .map((name) => `${part}/${name.replaceAll('\\', '/')}`)
    .sort()
}

function attempt<T>(problems: DatasetProblem[], read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error
    problems.push({ kind: 'unreadable', file: error.file, what: error.message })
    return undefined
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
