/** The same as launch.test.ts, with the torchrun of the real environment: its log folders, its summary, its signals. */
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openProject, train } from '../../sdk/python/launch.ts'
import { fakeHost } from './host.ts'

const python = fileURLToPath(new URL('../../.venv/bin/python', import.meta.url))
const fixture = fileURLToPath(new URL('fixtures/train.py', import.meta.url))

describe.skipIf(!existsSync(python))('train with torchrun', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'vla-torchrun-'))
    await copyFile(fixture, join(folder, 'train.py'))
    const pipeline = {
      name: 'tiny',
      parallel: { world: 2 },
      hardware: { kind: 'cpus' },
      training: { updates: 20, globalBatch: 8 },
    }
    await writeFile(join(folder, 'plan.json'), JSON.stringify({ pipeline }))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })
  const host = (): ReturnType<typeof fakeHost> =>
    fakeHost({ env: { PATH: process.env['PATH'] ?? '', OMP_NUM_THREADS: '1' }, cwd: folder })
  const start = async (args: string[], on = host()): ReturnType<typeof train> =>
    train({ host: on, project: await openProject(folder), python, args, port: undefined, color: false })

  it('shows progress and rank 0 alone', async () => {
    const on = host()
    expect(await start([], on)).toMatchObject({ last: { update: 19 } })
    expect(on.text()).toContain('20/20  100 %')
    expect(on.text().match(/resumed after 0 updates/g)).toHaveLength(1)
  })

  it('tells the traceback of the rank that failed first', async () => {
    const error = await start(['rank1']).catch((thrown: unknown) => thrown as Error)
    expect(error).toMatchObject({
      message: expect.stringMatching(
        /rank 1 \(rank 0 went down with it\)[^]*ValueError: the data of this rank is broken/,
      ) as string,
    })
    expect((error as Error).message.match(/Traceback/g)).toHaveLength(1)
  })

  it('tells an explained error once', async () => {
    await expect(start(['explained'])).rejects.toThrow(/before its first update: rank \d[^]*the plan says 2 processes/)
  })

  it('says that a rank was killed', async () => {
    await expect(start(['oom'])).rejects.toThrow(/rank 1[^]*killed by SIGKILL/)
  })

  it('stops politely at Ctrl-C', async () => {
    await rm(join(folder, 'runs'), { recursive: true, force: true })
    const on = host()
    const run = start(['wait'], on)
    while (!(await readFile(join(folder, 'runs/tiny/metrics.jsonl'), 'utf8').catch(() => '')).includes('\n'))
      await new Promise((resolve) => setTimeout(resolve, 100))
    on.signal('SIGINT')
    await expect(run).rejects.toMatchObject({ name: 'Interrupted' })
  })
})
