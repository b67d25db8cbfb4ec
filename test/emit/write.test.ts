import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { EmittedFile } from '../../sdk/emit/emitted.ts'
import { manifestPath, writeProject, type WriteOptions, type WriteReport } from '../../sdk/emit/write.ts'

let folder: string
let out: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'vla-write-'))
  out = path.join(folder, 'out')
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const first: Record<string, string> = {
  'train.py': 'one\ntwo\n',
  'vla_runtime/run.py': 'run\n',
  'launch/local.sh': '#!/bin/sh\n',
}
const scaffolds: Record<string, string> = { 'hooks.py': 'yours\n' }

/** What is produced, but for one file. */
function without(file: string): Record<string, string> {
  return Object.fromEntries(Object.entries(first).filter(([name]) => name !== file))
}

function build(
  managed: Record<string, string> = first,
  mode: WriteOptions['mode'] = 'write',
  yours = scaffolds,
): Promise<WriteReport> {
  const files = new Map<string, EmittedFile>([
    ...Object.entries(managed).map(([file, content]): [string, EmittedFile] => [
      file,
      { content, kind: 'managed', executable: file.endsWith('.sh') },
    ]),
    ...Object.entries(yours).map(([file, content]): [string, EmittedFile] => [file, { content, kind: 'scaffold' }]),
  ])
  return writeProject({ out, files, tool: 'vla 0.1.0', planHash: 'abc', mode })
}
const read = (file: string): Promise<string> => readFile(path.join(out, file), 'utf8')
const edit = (file: string, content: string): Promise<void> => writeFile(path.join(out, file), content)
const actions = (report: WriteReport): Record<string, string> =>
  Object.fromEntries(report.changes.map((change) => [change.path, change.action]))

/** Everything in the folder with content and modification time. */
async function snapshot(): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    const { mtimeMs } = await lstat(file)
    found[path.relative(folder, file)] = entry.isFile()
      ? `${mtimeMs} ${await readFile(file, 'utf8')}`
      : entry.isDirectory()
        ? 'folder'
        : 'link'
  }
  return found
}

/** Files get a time in the past, so that a write cannot go unseen. */
async function age(): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) await utimes(path.join(entry.parentPath, entry.name), 1000, 1000)
  }
}

describe('what is ours', () => {
  test('is written, with a manifest, and scripts may be started', async () => {
    const report = await build()
    expect(actions(report)).toEqual({
      'hooks.py': 'create',
      'launch/local.sh': 'create',
      'train.py': 'create',
      'vla_runtime/run.py': 'create',
    })
    expect(report).toMatchObject({ written: true, stale: true, blocked: [] })
    expect(await read('train.py')).toBe('one\ntwo\n')
    expect((await stat(path.join(out, 'launch/local.sh'))).mode & 0o111).toBe(0o111)
    const manifest = JSON.parse(await read(manifestPath)) as { tool: string; files: Record<string, { kind: string }> }
    expect(manifest.tool).toBe('vla 0.1.0')
    expect(Object.entries(manifest.files).map(([file, { kind }]) => `${file} ${kind}`)).toEqual([
      'hooks.py scaffold',
      'launch/local.sh managed',
      'train.py managed',
      'vla_runtime/run.py managed',
    ])
    expect((await readdir(out, { recursive: true })).filter((file) => file.includes('tmp'))).toEqual([])
  })

  test('a second build touches no file', async () => {
    await build()
    await age()
    const before = await snapshot()
    const report = await build()
    expect(report).toMatchObject({ written: false, stale: false })
    expect(await snapshot()).toEqual(before)
  })

  test('is replaced where nobody touched it, and the rest stays untouched', async () => {
    await build()
    await age()
    const before = await snapshot()
    const report = await build({ ...first, 'train.py': 'three\n' })
    expect(actions(report)).toMatchObject({ 'train.py': 'replace', 'vla_runtime/run.py': 'unchanged' })
    const after = await snapshot()
    expect(Object.keys(after).filter((file) => after[file] !== before[file])).toEqual(
      ['out/train.py', 'out/.vla/manifest.json'].sort(
        (a, b) => Object.keys(after).indexOf(a) - Object.keys(after).indexOf(b),
      ),
    )
  })

  test('is written again where it was deleted', async () => {
    await build()
    await rm(path.join(out, 'train.py'))
    expect(actions(await build())).toMatchObject({ 'train.py': 'create' })
    expect(await read('train.py')).toBe('one\ntwo\n')
  })

  test('is deleted where it is no longer produced, with the folder that it leaves empty', async () => {
    await build()
    const rest = without('vla_runtime/run.py')
    expect(actions(await build(rest))).toMatchObject({ 'vla_runtime/run.py': 'delete' })
    expect(existsSync(path.join(out, 'vla_runtime'))).toBe(false)
    expect(await read(manifestPath)).not.toContain('run.py')
  })

  test('keeps the folder of a deleted file where something else is in it', async () => {
    await build()
    await edit('vla_runtime/mine.py', 'mine\n')
    const rest = without('vla_runtime/run.py')
    await build(rest)
    expect(await read('vla_runtime/mine.py')).toBe('mine\n')
  })
})

describe('what somebody edited', () => {
  test('is a conflict with a diff, and nothing at all is written', async () => {
    await build()
    await edit('train.py', 'one\nTWO\n')
    await age()
    const before = await snapshot()
    const report = await build({ ...first, 'train.py': 'one\nthree\n', 'vla_runtime/run.py': 'new\n' })
    expect(report.blocked.map(({ path: file, action }) => [file, action])).toEqual([['train.py', 'conflict']])
    expect(report.blocked[0]?.diff).toContain('-TWO\n+three\n')
    expect(report.blocked[0]?.message).toContain('edited by hand')
    expect(report.written).toBe(false)
    expect(await snapshot()).toEqual(before)
  })

  test('is no conflict where the edit is what we would write', async () => {
    await build()
    await edit('train.py', 'three\n')
    const report = await build({ ...first, 'train.py': 'three\n' })
    expect(report.blocked).toEqual([])
    expect(actions(await build({ ...first, 'train.py': 'four\n' }))).toMatchObject({ 'train.py': 'replace' })
  })

  test("stays where it is no longer produced, with a warning, and is the user's from then on", async () => {
    await build()
    await edit('vla_runtime/run.py', 'mine\n')
    const rest = without('vla_runtime/run.py')
    const report = await build(rest)
    expect(report.changes.find(({ action }) => action === 'keep')?.message).toContain('yours from now on')
    expect(report.written).toBe(true)
    expect(await read('vla_runtime/run.py')).toBe('mine\n')
    expect(await build(rest)).toMatchObject({ stale: false })
    expect((await build()).blocked.map(({ path: file, action }) => [file, action])).toEqual([
      ['vla_runtime/run.py', 'refused'],
    ])
  })
})

describe('a scaffold', () => {
  test('is written once and never looked at again', async () => {
    await build()
    await edit('hooks.py', 'my code\n')
    expect(await build(first, 'write', { 'hooks.py': 'newer\n' })).toMatchObject({ blocked: [] })
    expect(await read('hooks.py')).toBe('my code\n')
    expect(await build(first, 'check', { 'hooks.py': 'newer\n' })).toMatchObject({ stale: false })
  })

  test('is not deleted where it is no longer produced', async () => {
    await build()
    await build(first, 'write', {})
    expect(await read('hooks.py')).toBe('yours\n')
  })

  test('may be there before us', async () => {
    await mkdir(out)
    await edit('hooks.py', 'older than you\n')
    expect(await build()).toMatchObject({ blocked: [], written: true })
    expect(await read('hooks.py')).toBe('older than you\n')
  })

  test('does not become ours by a change of kind', async () => {
    await build()
    await edit('hooks.py', 'my code\n')
    const report = await build({ ...first, 'hooks.py': 'managed now\n' }, 'write', {})
    expect(report.blocked.map(({ action }) => action)).toEqual(['refused'])
    expect(await read('hooks.py')).toBe('my code\n')
  })
})

describe('what is not ours', () => {
  test('is refused where it stands in the way', async () => {
    await mkdir(out)
    await edit('train.py', 'somebody else\n')
    const report = await build()
    expect(report.blocked.map(({ path: file, action }) => [file, action])).toEqual([['train.py', 'refused']])
    expect(await readdir(out)).toEqual(['train.py'])
  })

  test('is adopted where it is equal', async () => {
    await mkdir(out)
    await edit('train.py', 'one\ntwo\n')
    expect(await build()).toMatchObject({ blocked: [], written: true })
  })

  test('is left alone beside our files', async () => {
    await mkdir(path.join(out, 'runs'), { recursive: true })
    await edit('runs/metrics.jsonl', '{}\n')
    await build()
    await build({})
    expect(await read('runs/metrics.jsonl')).toBe('{}\n')
  })

  test('a folder or a file in place of the other is refused', async () => {
    await mkdir(path.join(out, 'train.py'), { recursive: true })
    await edit('vla_runtime', 'a file\n')
    expect((await build()).blocked.map(({ path: file }) => file)).toEqual(['train.py', 'vla_runtime/run.py'])
  })
})

describe('paths', () => {
  test('a symbolic link is never written through', async () => {
    const elsewhere = path.join(folder, 'elsewhere')
    await mkdir(elsewhere)
    await mkdir(out)
    await symlink(elsewhere, path.join(out, 'vla_runtime'))
    await writeFile(path.join(elsewhere, 'target'), 'safe')
    await symlink(path.join(elsewhere, 'target'), path.join(out, 'train.py'))
    const report = await build()
    expect(report.blocked.map(({ path: file, message }) => `${file}: ${message}`)).toEqual([
      'train.py: train.py is a symbolic link; nothing is read or written through it',
      'vla_runtime/run.py: vla_runtime is a symbolic link; nothing is read or written through it',
    ])
    expect(await readdir(elsewhere)).toEqual(['target'])
    expect(await readFile(path.join(elsewhere, 'target'), 'utf8')).toBe('safe')
  })

  test('a link put in place of a written file is not followed for deleting either', async () => {
    await build()
    const elsewhere = path.join(folder, 'elsewhere')
    await mkdir(elsewhere)
    await writeFile(path.join(elsewhere, 'run.py'), 'run\n')
    await rm(path.join(out, 'vla_runtime'), { recursive: true })
    await symlink(elsewhere, path.join(out, 'vla_runtime'))
    const rest = without('vla_runtime/run.py')
    expect((await build(rest)).blocked).toHaveLength(1)
    expect(await readdir(elsewhere)).toEqual(['run.py'])
  })

  test('a file in place of the project folder is refused', async () => {
    await writeFile(out, 'x')
    expect((await build()).blocked).toHaveLength(1)
    out = path.join(out, 'below')
    expect((await build()).blocked).toHaveLength(1)
  })

  test('the project folder itself may be a link', async () => {
    await mkdir(path.join(folder, 'real'))
    await symlink(path.join(folder, 'real'), out)
    expect(await build()).toMatchObject({ written: true })
    expect(await readFile(path.join(folder, 'real/train.py'), 'utf8')).toBe('one\ntwo\n')
  })

  test.each(['../evil', '/etc/evil', 'a/../../evil', './x', 'a//b', 'C:\\evil', 'a\\..\\b', '', 'x/'])(
    '%j is refused',
    async (file) => {
      const report = await build({ [file]: 'x' })
      expect(report.blocked.map(({ action }) => action)).toEqual(['refused'])
      expect(existsSync(out)).toBe(false)
    },
  )

  test('a manifest that names files elsewhere deletes nothing', async () => {
    await build()
    await writeFile(path.join(folder, 'victim'), 'x')
    const hash = '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881' // of 'x'
    await edit(
      manifestPath,
      JSON.stringify({ tool: 'vla', planHash: 'x', files: { '../victim': { sha256: hash, kind: 'managed' } } }),
    )
    const report = await build(first)
    expect(report.blocked.map(({ path: file }) => file)).toContain('../victim')
    expect(existsSync(path.join(folder, 'victim'))).toBe(true)
  })

  test.each([
    '',
    'no json',
    '[]',
    '{"files":{}}',
    '{"tool":"","planHash":"","files":{"a":{"sha256":"short","kind":"managed"}}}',
  ])('a broken manifest stops the build: %j', async (content) => {
    await build()
    await edit(manifestPath, content)
    const report = await build({ ...first, 'train.py': 'new\n' })
    expect(report.blocked[0]?.message).toContain('cannot be read')
    expect(await read('train.py')).toBe('one\ntwo\n')
  })
})

describe('check and diff', () => {
  test('say what is stale and write nothing', async () => {
    expect(await build(first, 'check')).toMatchObject({ stale: true, written: false })
    expect(existsSync(out)).toBe(false)
    await build()
    expect(await build(first, 'check')).toMatchObject({ stale: false, written: false })
    await age()
    const before = await snapshot()
    const changed = { ...first, 'train.py': 'three\n' }
    const report = await build(changed, 'check')
    expect(report).toMatchObject({ stale: true, written: false, blocked: [] })
    expect(report.changes.every(({ diff }) => diff === '')).toBe(true)
    const { changes } = await build(changed, 'diff')
    expect(changes.find(({ path: file }) => file === 'train.py')?.diff).toContain('-one\n-two\n+three\n')
    expect(await snapshot()).toEqual(before)
  })

  test('a hand-edited file is a conflict in check too, even where nothing else is stale', async () => {
    await build()
    await edit('train.py', 'mine\n')
    const report = await build(first, 'check')
    expect(report.stale).toBe(true)
    expect(report.blocked.map(({ action }) => action)).toEqual(['conflict'])
  })
})

test('a write that fails leaves no half file', async () => {
  if (process.getuid?.() === 0) return // root writes everywhere
  await build()
  await chmod(path.join(out, 'vla_runtime'), 0o500)
  await expect(build({ ...first, 'vla_runtime/run.py': 'new\n' })).rejects.toThrow()
  await chmod(path.join(out, 'vla_runtime'), 0o700)
  expect(await read('vla_runtime/run.py')).toBe('run\n')
  expect(await readdir(path.join(out, 'vla_runtime'))).toEqual(['run.py'])
})
