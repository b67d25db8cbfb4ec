import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { run } from '../../sdk/cli/run.ts'
import { fakeIo, vla, vlaJson } from './io.ts'

const fixtures = fileURLToPath(new URL('../python-env/fixtures', import.meta.url))
const env = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', PYTHONPATH: join(fixtures, 'launcher') }

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-cli-python-'))
  await mkdir(join(folder, 'build'))
  await copyFile(join(fixtures, 'train.py'), join(folder, 'build/train.py'))
  const pipeline = {
    name: 'tiny',
    parallel: { world: 2 },
    hardware: { kind: 'cpus' },
    training: { updates: 20, globalBatch: 8 },
  }
  await writeFile(join(folder, 'build/plan.json'), JSON.stringify({ pipeline }))
  // An environment whose python is the machine's.
  await mkdir(join(folder, '.venv/bin'), { recursive: true })
  await writeFile(
    join(folder, '.venv/bin/python'),
    `#!/bin/sh\ncase "$2" in *sys.version_info*) echo 3.12.0; echo ${folder}/.venv/bin/python ;; *) exec python3 "$@" ;; esac\n`,
  )
  await chmod(join(folder, '.venv/bin/python'), 0o755)
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe('vla run', () => {
  it('trains with the nearest environment', async () => {
    const { code, stdout, stderr } = await vla(folder, ['run', 'build'], { env })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    expect(stderr).toContain('tiny: complete, 20 updates, loss 0.05')
    expect(await vlaJson(folder, ['run', 'build'], { env })).toMatchObject({
      updates: 20,
      last: { update: 19, lr: { vision: 1e-3 } },
    })
  })

  it('hands on what stands after --, --json included', async () => {
    const { code, stderr } = await vla(folder, ['run', 'build', '--', 'rank1', '--json'], { env })
    expect(code).toBe(2)
    expect(stderr).toContain('ValueError: the data of this rank is broken')
    expect(stderr.match(/Traceback/g)).toHaveLength(1)
  })

  it('accepts changes by name', async () => {
    await writeFile(
      join(folder, 'build/train.py'),
      'import sys\nopen("argv-" + __import__("os").environ["RANK"], "w").write(" ".join(sys.argv[1:]))\n',
    )
    expect(
      await vla(folder, ['run', 'build', '--allow-change', 'modules.vision.lr', '--allow-change', 'seed'], { env }),
    ).toMatchObject({ code: 0 })
    expect(await readFile(join(folder, 'build/argv-1'), 'utf8')).toBe(
      '--allow-change modules.vision.lr --allow-change seed',
    )
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s ends it with %i', async (signal, code) => {
    const io = fakeIo(folder, { env })
    const ended = run(['run', 'build', '--', 'wait'], io)
    while (!(await readFile(join(folder, 'build/runs/tiny/metrics.jsonl'), 'utf8').catch(() => '')).includes('\n'))
      await new Promise((resolve) => setTimeout(resolve, 50))
    io.signal(signal)
    expect(await ended).toBe(code)
    expect(io.told.stderr).toContain('vla run build continues from it')
  })

  it('says what is not a project, and where there is no environment', async () => {
    expect(await vla(folder, ['run', '.'], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not a generated project') as string,
    })
    await rm(join(folder, '.venv'), { recursive: true })
    expect(await vla(folder, ['run', 'build'], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`vla env ${join(folder, 'build')}`) as string,
    })
  })
})

describe('vla pack', () => {
  it('runs pack.py and shows what it says on stderr', async () => {
    await writeFile(join(folder, 'build/pack.py'), 'import sys\nprint("largest difference 0.0", *sys.argv[1:])\n')
    const { code, stdout, stderr } = await vla(folder, ['pack', 'build', '--', '--out', 'x'], { env })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    expect(stderr).toContain('largest difference 0.0 --out x')
    expect(await vlaJson(folder, ['pack', 'build'], { env })).toMatchObject({ project: join(folder, 'build') })
    await writeFile(join(folder, 'build/pack.py'), 'raise SystemExit(2)')
    expect(await vla(folder, ['pack', 'build'], { env })).toMatchObject({ code: 2 })
  })
})

describe('vla env', () => {
  it('exits with 2 and says what was tried where there is no Python 3.12', async () => {
    await rm(join(folder, '.venv'), { recursive: true })
    await writeFile(join(folder, 'build/requirements.lock'), 'six==1.17.0\n')
    await mkdir(join(folder, 'bin'))
    await writeFile(join(folder, 'bin/python3'), '#!/bin/sh\necho 3.9.1; echo /usr/bin/python3\n')
    await chmod(join(folder, 'bin/python3'), 0o755)
    const none = { PATH: join(folder, 'bin'), HOME: folder }
    const { code, stderr } = await vla(folder, ['env', 'build'], { env: none })
    expect(code).toBe(2)
    expect(stderr).toContain(`${join(folder, 'bin/python3')} is Python 3.9.1`)
    expect(stderr).toContain('uv python install 3.12')
    expect(await vlaJson(folder, ['env', 'build'], { env: none })).toMatchObject({
      exitCode: 2,
      error: { kind: 'failed' },
    })
  })

  it('exits with 5 where --check finds a difference', async () => {
    await writeFile(join(folder, 'build/requirements.lock'), 'surely-not-installed==1.0\n')
    const { code, stderr } = await vla(folder, ['env', 'build', '--dir', '.', '--check'], { env })
    expect(code).toBe(5)
    expect(stderr).toContain('surely-not-installed missing (locked: 1.0)')
    await writeFile(join(folder, 'build/requirements.lock'), '# nothing\n')
    expect(await vlaJson(folder, ['env', 'build', '--dir', '.', '--check'], { env })).toMatchObject({
      exitCode: 0,
      state: 'current',
      differences: [],
    })
    expect(await vla(folder, ['env', 'nowhere'], { env })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('requirements.lock is not there') as string,
    })
  })
})
