import { createHash } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readDataset } from '../../sdk/lock/dataset.ts'
import { features, info, parquet, stats, temporaryFolder, writeDataset } from './fixtures.ts'

const source = { repo: null, revision: null }

function problemsOf(replaced: Record<string, string | Uint8Array | null>) {
  const folder = temporaryFolder()
  writeDataset(folder, replaced)
  return readDataset(folder, source)
}

describe('readDataset', () => {
  it('reads features, rates, sizes and the statistics of vectors', () => {
    const { entry, problems } = problemsOf({})
    expect(problems).toEqual([])
    expect(entry).toMatchObject({
      codebaseVersion: 'v3.0',
      fps: 80,
      episodes: 20,
      frames: 400,
      robotType: null,
      repo: null,
      revision: null,
    })
    expect(entry?.features['observation.image']).toEqual({
      dtype: 'image',
      shape: [64, 48, 3],
      names: ['height', 'width', 'channels'],
    })
    expect(entry?.features.action?.names).toEqual(['x', 'y', 'z', 'gripper'])
    expect(Object.keys(entry?.statistics ?? {}).sort()).toEqual(['action', 'observation.state', 'timestamp'])
    expect(entry?.statistics.action).toEqual({
      min: [-1, 0, 1, 2],
      max: [1, 2, 3, 4],
      mean: [0, 1, 2, 3],
      std: [0.5, 1.5, 2.5, 3.5],
      q01: [-0.9, 0.09999999999999998, 1.1, 2.1],
      q10: [-0.5, 0.5, 1.5, 2.5],
      q50: [0, 1, 2, 3],
      q90: [0.5, 1.5, 2.5, 3.5],
      q99: [0.9, 1.9, 2.9, 3.9],
    })
  })

  it('has the fingerprint that preflight computes: sha256 of the two hashes, each with a newline', () => {
    const { entry } = problemsOf({})
    const hash = (content: string): string => createHash('sha256').update(content).digest('hex')
    const expected = hash(`${hash(JSON.stringify(info(), null, 4))}\n${hash(JSON.stringify(stats(), null, 4))}\n`)
    expect(entry?.fingerprint).toBe(expected)
  })

  it("reads Python's NaN and Infinity, in strings too, as they are", () => {
    const withNan = JSON.stringify(stats()).replaceAll('[0.5,1.5,2.5,3.5]', '[NaN, Infinity, -Infinity, 3.5]')
    const odd = { ...features, 'say "NaN" \\': { dtype: 'float32', shape: [1], names: ['NaN'] } }
    const { entry, problems } = problemsOf({
      'meta/stats.json': withNan,
      'meta/info.json': JSON.stringify(info({ features: odd })),
    })
    expect(problems).toEqual([])
    expect(entry?.statistics.action?.std).toEqual([null, null, null, 3.5])
    expect(entry?.features['say "NaN" \\']?.names).toEqual(['NaN'])
  })

  it('says when there is no folder, or no dataset in it', () => {
    const folder = temporaryFolder()
    expect(readDataset(join(folder, 'nothing'), source).problems).toEqual([
      { kind: 'notFound', what: 'there is no such folder', absent: true },
    ])
    expect(readDataset(folder, source).problems).toEqual([
      { kind: 'notFound', what: 'the folder has no meta/info.json', absent: false },
    ])
  })

  it.each([
    ['cut off', '{"codebase_version": "v3.0", "fps"', 'it is not valid JSON; it may have been cut off'],
    ['empty', '', 'the file is empty'],
    ['a list', '[]', 'it does not hold a JSON object'],
    ['no fps', JSON.stringify(info({ fps: 0 })), 'fps is 0, expected a positive number'],
    ['no features', JSON.stringify(info({ features: null })), 'features is missing'],
    ['odd count', JSON.stringify(info({ total_frames: -1 })), 'total_frames is -1, expected a count'],
    ['odd feature', JSON.stringify(info({ features: { action: 3 } })), "feature 'action' has no dtype and shape"],
  ])('names what is wrong with info.json: %s', (_, content, what) => {
    const { entry, problems } = problemsOf({ 'meta/info.json': content })
    expect(entry).toBeUndefined()
    expect(problems).toEqual([{ kind: 'unreadable', file: 'meta/info.json', what }])
  })

  it('refuses other formats by their version', () => {
    expect(problemsOf({ 'meta/info.json': JSON.stringify(info({ codebase_version: 'v2.1' })) }).problems).toEqual([
      { kind: 'otherVersion', version: 'v2.1' },
    ])
    expect(problemsOf({ 'meta/info.json': '{}' }).problems).toEqual([{ kind: 'otherVersion', version: 'no version' }])
  })

  it('finds an empty dataset, and asks nothing more of it', () => {
    const { entry, problems } = problemsOf({
      'meta/info.json': JSON.stringify(info({ total_episodes: 0, total_frames: 0 })),
      'meta/stats.json': null,
      'data/chunk-000/file-000.parquet': null,
    })
    expect(problems).toEqual([{ kind: 'empty' }])
    expect(entry).toMatchObject({ episodes: 0, statistics: {} })
  })

  it.each([
    [
      'data/chunk-000/file-001.parquet',
      parquet(100).subarray(0, -3),
      'its Parquet footer is missing: the recording was not finalised, or the file was cut off',
    ],
    ['data/chunk-000/file-000.parquet', Buffer.from('PAR1'), 'it is cut off (4 bytes)'],
    ['meta/episodes/chunk-000/file-000.parquet', Buffer.from('version https://git-lfs'), 'it is not a Parquet file'],
    ['meta/tasks.parquet', null, 'the file is missing'],
    ['meta/stats.json', null, 'the file is missing'],
    ['meta/stats.json', '{"action": {"mea', 'it is not valid JSON; it may have been cut off'],
  ])('finds a torn file: %s', (file, content, what) => {
    const { entry, problems } = problemsOf({ [file]: content })
    expect(problems).toEqual([{ kind: 'unreadable', file, what }])
    expect(entry?.frames).toBe(400)
  })

  it.each([
    ['data/chunk-000/file-001.parquet', null, { folder: 'data/', rows: 300, of: 'frames', said: 400 }],
    ['data/chunk-000/file-001.parquet', parquet(99), { folder: 'data/', rows: 399, of: 'frames', said: 400 }],
    [
      'meta/episodes/chunk-000/file-000.parquet',
      parquet(2_000_000),
      { folder: 'meta/episodes/', rows: 2_000_000, of: 'episodes', said: 20 },
    ],
  ])('counts the rows of its files: %s', (file, content, problem) => {
    expect(problemsOf({ [file]: content }).problems).toEqual([{ kind: 'rows', ...problem }])
  })

  it('says of a footer that is no footer what it is, whatever its bytes', () => {
    const whole = parquet(100)
    fc.assert(
      fc.property(fc.integer({ min: 4, max: whole.length - 5 }), fc.integer({ min: 1, max: 255 }), (at, by) => {
        const damaged = Buffer.from(whole)
        damaged[at] = (damaged[at] ?? 0) ^ by
        for (const problem of problemsOf({ 'data/chunk-000/file-001.parquet': damaged }).problems)
          expect(['rows', 'unreadable']).toContain(problem.kind)
      }),
      { numRuns: 200 },
    )
  })

  it('does not go down a footer that is nested without end', () => {
    const nested = Buffer.alloc(100_000, 0x1c)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(nested.length)
    const file = Buffer.concat([Buffer.from('PAR1'), nested, length, Buffer.from('PAR1')])
    expect(problemsOf({ 'data/chunk-000/file-001.parquet': file }).problems).toMatchObject([
      { kind: 'unreadable', what: 'its Parquet footer cannot be read: the file was changed or damaged' },
    ])
  })

  it('misses data files and videos', () => {
    const videos = {
      ...features,
      'observation.images.top': { dtype: 'video', shape: [480, 640, 3], names: ['height', 'width', 'channels'] },
    }
    const { problems } = problemsOf({
      'meta/info.json': JSON.stringify(info({ features: videos })),
      'data/chunk-000/file-000.parquet': null,
      'data/chunk-000/file-001.parquet': null,
    })
    expect(problems).toEqual([
      { kind: 'unreadable', file: 'data/', what: 'it holds no Parquet file' },
      { kind: 'unreadable', file: 'videos/observation.images.top/', what: 'it holds no video' },
    ])
  })
})
