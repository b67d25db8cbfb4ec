/** The program itself, as a process: what only sdk/cli/bin.ts can get wrong. */
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { version } from '../../sdk/cli/package.ts'

const bin = fileURLToPath(new URL('../../sdk/cli/bin.ts', import.meta.url))
const tsx = fileURLToPath(new URL('../../node_modules/tsx/dist/esm/index.mjs', import.meta.url))
const fixtures = fileURLToPath(new URL('../python-env/fixtures', import.meta.url))

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-bin-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const vla = (args: string[], env: Record<string, string> = {}) =>
  execa(process.execPath, ['--import', tsx, bin, ...args], { cwd: folder, env, reject: false })

describe('the program', () => {
  it('hands on arguments, streams and the exit code', async () => {
    expect(await vla(['--version'])).toMatchObject({ exitCode: 0, stdout: version, stderr: '' })
    expect(await vla(['check'])).toMatchObject({
      exitCode: 2,
      stdout: '',
      stderr: expect.stringContaining('There is no pipeline.ts') as string,
    })
  })

  it('colours where it is asked to, and not where it is asked not to', async () => {
    expect((await vla(['check'])).stderr).not.toContain('\u001b[')
    expect((await vla(['check'], { FORCE_COLOR: '1' })).stderr).toContain('\u001b[')
    expect((await vla(['check'], { FORCE_COLOR: '0', NO_COLOR: '1' })).stderr).not.toContain('\u001b[')
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s lets the run end and exits with %i', async (signal, code) => {
    await copyFile(join(fixtures, 'train.py'), join(folder, 'train.py'))
    const pipeline = {
      name: 'tiny',
      parallel: { world: 2 },
      hardware: { kind: 'cpus' },
      training: { updates: 20, globalBatch: 8 },
    }
    await writeFile(join(folder, 'plan.json'), JSON.stringify({ pipeline }))
    const child = vla(['run', '.', '--python', 'python3', '--', 'wait'], { PYTHONPATH: join(fixtures, 'launcher') })
    const metrics = join(folder, 'runs/tiny/metrics.jsonl')
    while (!(await readFile(metrics, 'utf8').catch(() => '')).includes('\n'))
      await new Promise((resolve) => setTimeout(resolve, 50))
    child.kill(signal)
    expect(await child).toMatchObject({
      exitCode: code,
      stderr: expect.stringContaining('vla run . continues from it') as string,
    })
  })
})
