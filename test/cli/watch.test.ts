/** `vla check --watch`, driven by saves; the test waits for what is told, never for time. */
import { appendFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { run } from '../../sdk/cli/run.ts'
import { cliOutput } from '../../sdk/cli/schema.ts'
import { writeDataset } from '../lock/fixtures.ts'
import { fakeIo, type FakeIo, vla } from './io.ts'
import { tinyPipeline } from './pipelines.ts'

// The first look loads the parser of TypeScript; on a busy machine that alone may take long.
vi.setConfig({ testTimeout: 120_000 })

let folder: string
let watched: { io: FakeIo; ended: Promise<number>; next: () => Promise<string> } | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-watch-'))
  await mkdir(join(folder, 'data'))
  writeDataset(join(folder, 'data/arm'))
})
afterEach(async () => {
  watched?.io.signal('SIGTERM')
  await watched?.ended
  watched = undefined
  await rm(folder, { recursive: true, force: true })
})

const save = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text)

/** Starts the command; `next` gives what was told up to the next "watching", and waits for it. */
function watch(...args: string[]): { io: FakeIo; ended: Promise<number>; next: () => Promise<string> } {
  const base = fakeIo(folder)
  let wake = (): void => undefined
  let read = 0
  const io: FakeIo = {
    ...base,
    stderr: {
      ...base.stderr,
      write: (text) => {
        base.told.stderr += text
        wake()
      },
    },
  }
  const ended = run(['check', '--watch', ...args], io)
  const next = async (): Promise<string> => {
    for (;;) {
      const rest = io.told.stderr.slice(read)
      const end = rest.search(/^watching .*\n/m)
      const lineEnd = end < 0 ? -1 : rest.indexOf('\n', end)
      if (lineEnd >= 0) {
        read += lineEnd + 1
        return rest.slice(0, lineEnd)
      }
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  watched = { io, ended, next }
  return watched
}

describe('vla check --watch', () => {
  it('checks again on every save, with nothing of the file as it was', async () => {
    await save('pipeline.ts', tinyPipeline({ batch: 13 }))
    const { next } = watch()
    expect(await next()).toContain('A global batch of 13 ')
    await save('pipeline.ts', tinyPipeline({ batch: 15 }))
    const second = await next()
    expect(second).toContain('pipeline.ts changed\n')
    expect(second).toContain('A global batch of 15 ')
    expect(second).not.toContain(' 13 ')
    await save('pipeline.ts', tinyPipeline({ batch: 16 }))
    expect(await next()).toMatch(/ok {2}0 findings/)
  })

  it.each(['ts', 'mts', 'js', 'cjs', 'json'])('reads what is imported anew: .%s', async (extension) => {
    const imported = (batch: number): string =>
      extension === 'json'
        ? String(batch)
        : extension === 'cjs'
          ? `module.exports = ${String(batch)}\n`
          : `export default ${String(batch)}\n`
    const attributes = extension === 'json' ? " with { type: 'json' }" : ''
    // One file in between: it does not change, and yet must not keep the old one.
    await mkdir(join(folder, 'parts'))
    await save('package.json', '{ "type": "module" }')
    await save(`parts/batch.${extension}`, imported(13))
    await save('parts/index.ts', `export { default as batch } from './batch.${extension}'${attributes}\n`)
    await save('pipeline.ts', tinyPipeline({ batch: 'batch', head: "import { batch } from './parts/index.ts'\n" }))
    const { next } = watch()
    expect(await next()).toContain('A global batch of 13 ')
    await save(`parts/batch.${extension}`, imported(15))
    const second = await next()
    expect(second).toContain(`parts/batch.${extension} changed\n`)
    expect(second).toContain('A global batch of 15 ')
  })

  it('tells a file that cannot be loaded, and goes on', async () => {
    await save('pipeline.ts', tinyPipeline())
    const { next } = watch()
    expect(await next()).toMatch(/ok {2}0 findings/)
    await save('pipeline.ts', 'const a = = 1\n')
    expect(await next()).toContain('Syntax error')
    await save('pipeline.ts', tinyPipeline({ head: "import { batch } from './batch.ts'\n", batch: 'batch' }))
    expect(await next()).toContain("Cannot find './batch.ts'")
    // The missing file is waited for.
    await save('batch.ts', 'export const batch = 13\n')
    expect(await next()).toContain('A global batch of 13 ')
    await rm(join(folder, 'pipeline.ts'))
    expect(await next()).toContain('There is no pipeline.ts')
    await save('pipeline.ts', tinyPipeline())
    expect(await next()).toMatch(/ok {2}0 findings/)
  })

  it('takes a save by renaming, as editors do', async () => {
    await save('pipeline.ts', tinyPipeline())
    const { next } = watch()
    await next()
    await save('.pipeline.ts.swp', tinyPipeline({ batch: 13 }))
    await rename(join(folder, '.pipeline.ts.swp'), join(folder, 'pipeline.ts'))
    expect(await next()).toContain('A global batch of 13 ')
  })

  it('looks at the lock and at the data', async () => {
    await save('pipeline.ts', tinyPipeline())
    await vla(folder, ['check'])
    const { next } = watch()
    expect(await next()).toMatch(/ok {2}0 findings/)
    await appendFile(join(folder, 'data/arm/meta/stats.json'), '\n')
    const second = await next()
    expect(second).toContain('data/arm/meta/stats.json changed')
    expect(second).toContain('VLA023')
    const lock = await readFile(join(folder, 'vla.lock.json'), 'utf8')
    await save('vla.lock.json', '{')
    expect(await next()).toContain('VLA027')
    await save('vla.lock.json', lock)
    expect(await next()).toContain('VLA023')
  })

  it('is not woken by other files in the same folder', async () => {
    await save('pipeline.ts', tinyPipeline())
    const { io, next } = watch()
    await next()
    await save('notes.txt', 'a')
    await save('pipeline.ts', tinyPipeline({ batch: 13 }))
    await next()
    expect(io.told.stderr.match(/ changed$/gm)).toEqual([' changed'])
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends it with %i', async (signal, code) => {
    await save('pipeline.ts', tinyPipeline())
    const { io, ended, next } = watch()
    await next()
    io.signal(signal)
    expect(await ended).toBe(code)
  })

  it('prints one object per look with --json', async () => {
    await save('pipeline.ts', tinyPipeline({ batch: 13 }))
    const { io, next } = watch('--json')
    await next()
    await save('pipeline.ts', tinyPipeline())
    await next()
    const objects = io.told.stdout
      .trimEnd()
      .split('\n')
      .map((line) => cliOutput.parse(JSON.parse(line)))
    expect(objects.map(({ exitCode }) => exitCode)).toEqual([4, 0])
  })

  it('ends at once where there is nothing to watch, and does not go with --fix', async () => {
    expect(await vla(folder, ['check', '--watch'])).toMatchObject({ code: 2 })
    await save('pipeline.ts', tinyPipeline())
    expect(await vla(folder, ['check', '--watch', '--fix'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot be used with') as string,
    })
  })
})
