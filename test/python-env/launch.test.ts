import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CannotDo, Interrupted } from '../../sdk/python/errors.ts'
import { openProject, runScript, train } from '../../sdk/python/launch.ts'
import { fakeHost } from './host.ts'

const fixtures = fileURLToPath(new URL('fixtures', import.meta.url))

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-launch-'))
  await copyFile(join(fixtures, 'train.py'), join(folder, 'train.py'))
  await writeFile(join(folder, 'plan.json'), JSON.stringify(plan({ kind: 'cpus' })))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

function plan(hardware: object): object {
  return {
    schemaVersion: 1,
    hash: '0',
    notes: {},
    pipeline: {
      name: 'tiny',
      parallel: { kind: 'fsdp2', world: 2 },
      hardware,
      training: { updates: 20, globalBatch: 8 },
    },
  }
}

function host(isTTY = false): ReturnType<typeof fakeHost> {
  return fakeHost({
    env: { PATH: process.env['PATH'] ?? '', PYTHONPATH: join(fixtures, 'launcher') },
    cwd: folder,
    isTTY,
  })
}

async function start(args: string[], on = host(), port?: number): Promise<Awaited<ReturnType<typeof train>>> {
  return train({ host: on, project: await openProject(folder), python: 'python3', args, port, color: false })
}

async function failureOf(work: Promise<unknown>): Promise<CannotDo> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(CannotDo)
  return error as CannotDo
}

describe('train', () => {
  it('shows updates, loss, learning rates, speed and time left', async () => {
    const on = host()
    const report = await start([], on)
    expect(report.run).toBe(join(folder, 'runs/tiny'))
    expect(report.last).toMatchObject({ update: 19, loss: 0.05 })
    expect(on.text()).toContain('tiny: 2 processes')
    expect(on.text()).toContain('20/20  100 %  loss 0.05  400 samples/s  ETA 0:00  lr vision 1.0e-3  action 5.0e-4')
    expect(on.text()).toContain('resumed after 0 updates')
    expect(on.text()).not.toContain('samples/s  0:00:01 left')
  })

  it('draws in place on a terminal and leaves nothing behind', async () => {
    const on = host(true)
    await start([], on)
    expect(on.text()).toContain('█')
    expect(on.text().endsWith('\u001b[2A\u001b[0J')).toBe(true)
  })

  it('reports the rank that failed first, with its own traceback and no other', async () => {
    const { message, fix } = await failureOf(start(['rank1']))
    expect(message).toMatch(/^The run failed after update \d+ of 20: rank 1 \(rank 0 went down with it\)/)
    expect(message).toContain('ValueError: the data of this rank is broken')
    expect(message.match(/Traceback/g)).toHaveLength(1)
    expect(message).not.toContain('Connection closed')
    expect(fix).toContain(join(folder, 'runs/tiny/logs'))
    expect(fix).toContain('vla run continues from it')
  })

  it('tells an explained error once, without a traceback', async () => {
    const { message } = await failureOf(start(['explained']))
    expect(message).toContain('before its first update: rank')
    expect(message.match(/the plan says 2 processes, the launcher started 3/g)).toHaveLength(1)
    expect(message).not.toContain('Traceback')
  })

  it('says what a rank that was killed died of', async () => {
    const { message } = await failureOf(start(['oom']))
    expect(message).toContain('rank 1')
    expect(message).toContain('killed by SIGKILL')
  })

  it('passes the first Ctrl-C on as SIGTERM, and the run ends by itself', async () => {
    const on = host()
    const run = start(['wait'], on)
    await updateIsThere()
    on.signal('SIGINT')
    await expect(run).rejects.toMatchObject({ name: 'Interrupted', signal: 'SIGINT' })
  })

  it('kills everything at the second', async () => {
    const on = host()
    const run = start(['deaf'], on)
    await updateIsThere()
    const worker = (await readFile(join(folder, 'runs/tiny/pid'), 'utf8')).trim()
    on.signal('SIGTERM')
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(await isAlive(worker)).toBe(true)
    on.signal('SIGTERM')
    await expect(run).rejects.toBeInstanceOf(Interrupted)
    expect(await isAlive(worker)).toBe(false)
  })

  it('names a port that is in use before it starts anything', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    try {
      const { message, fix } = await failureOf(start([], host(), port))
      expect(message).toBe(`Port ${String(port)} is in use on this machine.`)
      expect(fix).toContain('Leave --port out')
    } finally {
      server.close()
    }
  })

  it('refuses a plan for several nodes', async () => {
    await writeFile(join(folder, 'plan.json'), JSON.stringify(plan({ kind: 'gpus', nodes: 4 })))
    const { message, fix } = await failureOf(start([]))
    expect(message).toContain('planned for 4 nodes')
    expect(fix).toContain('launch')
  })
})

describe('openProject', () => {
  it('says what is not a generated project', async () => {
    await rm(join(folder, 'plan.json'))
    await expect(openProject(folder)).rejects.toThrow(/is not a generated project/)
    await writeFile(join(folder, 'plan.json'), '{')
    await expect(openProject(folder)).rejects.toThrow(/cannot be read as a plan/)
  })
})

describe('runScript', () => {
  it('shows what the script says, and that it failed', async () => {
    await mkdir(join(folder, 'packages'))
    await writeFile(
      join(folder, 'pack.py'),
      'import sys\nprint("packing", sys.argv[1])\nprint("no checkpoint", file=sys.stderr)\nsys.exit(2)\n',
    )
    const on = host()
    const { message } = await failureOf(runScript(on, await openProject(folder), 'python3', 'pack.py', ['--out=x']))
    expect(message).toBe('pack.py ended with exit code 2.')
    expect(on.text()).toContain('packing --out=x')
    expect(on.text()).toContain('no checkpoint')
    await expect(runScript(on, await openProject(folder), 'python3', 'evaluate.py', [])).rejects.toThrow(
      /has no evaluate.py/,
    )
  })
})

async function updateIsThere(): Promise<void> {
  for (let i = 0; i < 200; i++) {
    const text = await readFile(join(folder, 'runs/tiny/metrics.jsonl'), 'utf8').catch(() => '')
    if (text.includes('\n')) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the run never wrote an update')
}

/** Whether a process runs; one that has ended and was not waited for does not. */
async function isAlive(pid: string): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat !== '' && !/^.*\) Z /s.test(stat)
}
