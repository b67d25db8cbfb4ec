/** check, lock, plan, build, rules and explain on declarations in a temporary folder, which has no packages installed. */
import { appendFile, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { entries } from '../../sdk/rules/index.ts'
import { writeDataset } from '../lock/fixtures.ts'
import { vla, vlaJson } from './io.ts'
import { tinyPipeline } from './pipelines.ts'

interface Listed {
  readonly id: string
  readonly findings: number | null
  readonly off: string | null
  readonly state: string | null
  readonly because: readonly string[]
}

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-check-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

async function pipeline(changes: Parameters<typeof tinyPipeline>[0] & { file?: string } = {}): Promise<void> {
  await writeFile(join(folder, changes.file ?? 'pipeline.ts'), tinyPipeline(changes))
}

async function dataset(): Promise<void> {
  await mkdir(join(folder, 'data'), { recursive: true })
  writeDataset(join(folder, 'data/arm'))
}

async function text(path: string): Promise<string> {
  return readFile(join(folder, path), 'utf8')
}

describe('vla check', () => {
  it('says nothing but ok, writes the lock, and is silent about it the second time', async () => {
    await pipeline()
    await dataset()
    const first = await vla(folder, ['check'])
    expect(first).toMatchObject({ code: 0, stdout: '' })
    expect(first.stderr).toContain('vla.lock.json was written')
    expect(first.stderr).toContain('ok  0 findings, plan ')
    expect((await vla(folder, ['check'])).stderr).not.toContain('vla.lock.json')
  })

  it('needs neither data nor an installed package once there is a lock', async () => {
    await pipeline()
    await dataset()
    const before = await vlaJson(folder, ['check'])
    await rm(join(folder, 'data'), { recursive: true })
    expect(await vlaJson(folder, ['check', 'pipeline.ts'])).toMatchObject({
      ok: true,
      plan: before['plan'],
      diagnostics: [],
    })
  })

  it('shows errors with place, frame, reason and fix on stderr, and exits with 4', async () => {
    await pipeline({ batch: 13 })
    await dataset()
    const { code, stdout, stderr } = await vla(folder, ['check'])
    expect({ code, stdout }).toEqual({ code: 4, stdout: '' })
    expect(stderr).toMatch(/^pipeline\.ts:17:42 error VLA201 batch-not-divisible/m)
    for (const part of ['> 17 |', '^^', 'why: ', 'fix: ', 'vla explain VLA201', '1 error'])
      expect(stderr).toContain(part)
    expect(stderr).toMatch(
      /^ {2}--fix-suggested VLA201\/1 {2}.*16\n- 17 \| .*globalBatch: 13, .*\n\+ 17 \| .*globalBatch: 16, /m,
    )
  })

  it('has the same in --json', async () => {
    await pipeline({ batch: 13 })
    await dataset()
    expect(await vlaJson(folder, ['check'])).toMatchObject({
      ok: false,
      exitCode: 4,
      error: null,
      diagnostics: [
        {
          id: 'VLA201',
          severity: 'error',
          file: 'pipeline.ts',
          line: 17,
          column: 42,
          path: ['training', 'globalBatch'],
        },
      ],
    })
  })

  it('counts warnings only against --max-warnings', async () => {
    await pipeline()
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 0, plan: { name: 'tiny' } })
    expect(await vla(folder, ['check', '--max-warnings', '0'])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("No LeRobot dataset at 'data/arm'") as string,
    })
    expect(await vla(folder, ['check', '--max-warnings', '1'])).toMatchObject({ code: 0 })
  })

  it('applies safe fixes with --fix and nothing else', async () => {
    await pipeline({ more: "exprot: [],\n  rules: { VLA203: off('no reason') }," })
    await writeFile(join(folder, 'pipeline.ts'), (await text('pipeline.ts')).replace('linear, ', 'linear, off, '))
    await dataset()
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 4 })
    const output = await vlaJson(folder, ['check', '--fix'])
    expect(output).toMatchObject({
      exitCode: 0,
      fixed: expect.arrayContaining([{ label: "Rename 'exprot' to 'export'", file: 'pipeline.ts' }]) as unknown,
    })
    expect(await text('pipeline.ts')).toContain('export: []')
  })

  it('applies one suggestion by its name, and no other', async () => {
    await pipeline({ batch: '12 /* mine */' })
    await dataset()
    const before = await text('pipeline.ts')
    const { diagnostics } = (await vlaJson(folder, ['check'])) as { diagnostics: Diagnostic[] }
    const [first, second] = diagnostics[0]?.fixes ?? []
    expect([first?.name, second?.name]).toEqual(['VLA201/1', 'VLA201/2'])
    expect(await vlaJson(folder, ['check', '--fix-suggested', 'vla201/2'])).toMatchObject({
      exitCode: 0,
      fixed: [{ label: second?.label, file: 'pipeline.ts' }],
    })
    expect(await text('pipeline.ts')).toBe(before.replace('microBatch: 4', 'microBatch: 3'))
  })

  it('refuses suggestions that are not there or change the same text', async () => {
    const slurm = tinyPipeline()
      .replace('torchrun }', 'slurm, torchrun }')
      .replace('[torchrun()]', "[torchrun(), slurm({ partition: 'gpu', time: '24' as never })]")
    await writeFile(join(folder, 'pipeline.ts'), slurm)
    await dataset()
    expect(await vla(folder, ['check', '--fix-suggested', 'VLA101/1'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no suggestion VLA101\/1 here[^]*VLA803\/1 \(.*VLA803\/2 \(/) as string,
    })
    const both = await vla(folder, ['check', '--fix-suggested', 'VLA803/1', '--fix-suggested', 'VLA803/2'])
    expect(both).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('VLA803/2 changes the same text as another') as string,
    })
    expect(await text('pipeline.ts')).toBe(slurm)
  })

  it('reads a named file or folder, and follows imports', async () => {
    await pipeline({ file: 'other.ts', head: "import { seed } from './seed.ts'\n", more: 'loader: { workers: seed },' })
    await writeFile(join(folder, 'seed.ts'), 'export const seed: number = 3\n')
    await dataset()
    expect(await vlaJson(folder, ['check', 'other.ts'])).toMatchObject({ exitCode: 0, file: join(folder, 'other.ts') })
    expect(await vla(folder, ['check'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('vla init') as string,
    })
    await pipeline()
    expect(await vlaJson(tmpdir(), ['check', folder])).toMatchObject({ exitCode: 0, file: join(folder, 'pipeline.ts') })
  })

  it.each(['', '{}', '{ "type": "commonjs" }', '{ "type": "module" }'])(
    'loads modules whatever package.json says: %j',
    async (manifest) => {
      await pipeline({ head: 'await Promise.resolve()\n' })
      await dataset()
      if (manifest !== '') await writeFile(join(folder, 'package.json'), manifest)
      expect(await vla(folder, ['check'])).toMatchObject({ code: 0 })
    },
  )

  it('keeps what the file prints out of stdout', async () => {
    await pipeline({ head: "console.log('hello')\n" })
    await dataset()
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 0 })
  })

  it('exits with 2 where the file cannot be loaded, and says where', async () => {
    await pipeline({ head: 'const broken = = 3\n' })
    expect(await vla(folder, ['check'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/pipeline\.ts:1:16 error VLA009[^]*Syntax error/) as string,
    })
    await pipeline({ head: "throw new Error('no such robot')\n" })
    expect(await vlaJson(folder, ['check'])).toMatchObject({
      exitCode: 2,
      diagnostics: [{ id: 'VLA009', line: 1, message: expect.stringContaining('no such robot') as string }],
    })
    await writeFile(join(folder, 'pipeline.ts'), 'export default { name: 3 }\n')
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 2, diagnostics: [{ id: 'VLA009', line: 1 }] })
  })
})

describe('vla lock', () => {
  it('writes what is at hand, and what changed', async () => {
    await pipeline()
    expect(await vlaJson(folder, ['lock'])).toMatchObject({ exitCode: 0, lock: null, written: false })
    await dataset()
    expect(await vlaJson(folder, ['lock'])).toMatchObject({
      exitCode: 0,
      written: true,
      datasets: ['data/arm'],
      weights: [],
    })
    expect(await vlaJson(folder, ['lock'])).toMatchObject({ written: false })
    await appendFile(join(folder, 'data/arm/meta/stats.json'), '\n')
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 4, diagnostics: [{ id: 'VLA023' }] })
    expect(await vlaJson(folder, ['lock'])).toMatchObject({ exitCode: 0, written: true, diagnostics: [] })
    expect(await vlaJson(folder, ['check'])).toMatchObject({ exitCode: 0 })
  })
})

describe('vla plan', () => {
  it('prints effective beside declared values with reasons on stdout', async () => {
    await pipeline()
    await dataset()
    const { code, stdout } = await vla(folder, ['plan'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^ {2}globalBatch +8 +8$/m)
    expect(stdout).toMatch(/^ {2}accumulation +1 +\S.*$/m)
    expect(await vlaJson(folder, ['plan'])).toMatchObject({
      plan: { schemaVersion: 1, pipeline: { name: 'tiny', training: { updates: 100 } } },
    })
  })

  it('prints what is known of a declaration with errors', async () => {
    await pipeline({ batch: 13 })
    await dataset()
    const { code, stdout, stderr } = await vla(folder, ['plan'])
    expect(code).toBe(4)
    expect(stdout).toMatch(/^ {2}accumulation +unknown/m)
    expect(stderr).toContain('VLA201')
  })
})

describe('vla build', () => {
  it('writes a project once, and touches nothing the second time', async () => {
    await pipeline()
    await dataset()
    expect(await vlaJson(folder, ['build', '--out', 'out'])).toMatchObject({ exitCode: 0, written: true })
    const before = await stat(join(folder, 'out/train.py'))
    const again = await vla(folder, ['build', '--out', 'out'])
    expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('out is up to date') as string })
    expect((await stat(join(folder, 'out/train.py'))).mtimeMs).toBe(before.mtimeMs)
    expect(await vla(folder, ['build', '--out', 'out', '--check'])).toMatchObject({ code: 0 })
  })

  it('gives the same bytes without the data, from another folder', async () => {
    await pipeline()
    await dataset()
    await vla(folder, ['build', '--out', 'out'])
    await rm(join(folder, 'data'), { recursive: true })
    expect(await vlaJson(tmpdir(), ['build', folder, '--out', join(folder, 'out'), '--check'])).toMatchObject({
      exitCode: 0,
      stale: false,
    })
  })

  it('exits with 5 and the diff where a file was edited, and writes nothing', async () => {
    await pipeline()
    await dataset()
    await vla(folder, ['build', '--out', 'out'])
    await appendFile(join(folder, 'out/train.py'), '# mine\n')
    await pipeline({ batch: 16 })
    const { code, stderr } = await vla(folder, ['build', '--out', 'out'])
    expect(code).toBe(5)
    expect(stderr).toContain('-# mine')
    expect(stderr).toContain('was edited by hand; nothing was written')
    expect(await text('out/train.py')).toContain('# mine')
  })

  it('exits with 5 with --check where the declaration has changed, and shows it with --diff', async () => {
    await pipeline()
    await dataset()
    await vla(folder, ['build', '--out', 'out'])
    await pipeline({ batch: 16 })
    expect(await vla(folder, ['build', '--out', 'out', '--check'])).toMatchObject({ code: 5, stdout: '' })
    const { code, stdout } = await vla(folder, ['build', '--out', 'out', '--diff'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^-.*GLOBAL_BATCH/m)
    expect(await vla(folder, ['build', '--out', 'out', '--diff', '--check'])).toMatchObject({ code: 5 })
  })

  it('refuses a foreign file and a link out of the folder', async () => {
    await pipeline()
    await dataset()
    await mkdir(join(folder, 'out'))
    await writeFile(join(folder, 'out/train.py'), 'print("mine")\n')
    expect(await vla(folder, ['build', '--out', 'out'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('was here before and is not ours') as string,
    })
    expect(await text('out/train.py')).toBe('print("mine")\n')
    await rm(join(folder, 'out/train.py'))
    await writeFile(join(folder, 'elsewhere.py'), '')
    await symlink(join(folder, 'elsewhere.py'), join(folder, 'out/train.py'))
    expect(await vlaJson(folder, ['build', '--out', 'out'])).toMatchObject({ exitCode: 2, written: false })
    expect(await text('elsewhere.py')).toBe('')
  })

  it('writes nothing of a declaration with errors', async () => {
    await pipeline({ batch: 13 })
    await dataset()
    expect(await vlaJson(folder, ['build', '--out', 'out'])).toMatchObject({
      exitCode: 4,
      written: false,
      diagnostics: [{ id: 'VLA201' }],
    })
    await expect(stat(join(folder, 'out'))).rejects.toThrow()
  })

  it('says what it lacks where neither lock nor data are there', async () => {
    await pipeline()
    expect(await vla(folder, ['build', '--out', 'out'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/the plan leaves open what it needs[^]*vla lock/) as string,
    })
  })
})

describe('vla rules and explain', () => {
  it('lists every rule, by area and severity where asked', async () => {
    const all = (await vla(folder, ['rules'])).stdout
    expect(all).toMatch(/^VLA101 {2}error {4}dtype-unsupported-on-gpu /m)
    const { rules } = (await vlaJson(folder, ['rules'])) as { rules: Listed[] }
    expect(rules.map(({ id }) => id)).toEqual(entries.map(({ id }) => id))
    expect(rules[0]).toMatchObject({ findings: null, off: null, state: null, because: [] })
    const some = (await vlaJson(folder, ['rules', '--area', 'training', '--severity', 'warning'])) as {
      rules: Listed[]
    }
    expect(some.rules.map(({ id }) => id)).toEqual(
      entries.filter(({ area, severity }) => area === 'training' && severity === 'warning').map(({ id }) => id),
    )
    expect(some.rules.length).toBeGreaterThan(2)
    expect(await vla(folder, ['rules', '--area', 'trainng'])).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no area trainng[^]*training/) as string,
    })
    expect(await vla(folder, ['rules', '--severity', 'fatal'])).toMatchObject({ code: 2 })
  })

  it('say for a declaration which looked, which found something, and which could not look and why', async () => {
    await pipeline({ batch: 13, more: "rules: { VLA203: off('measured') }," })
    await writeFile(join(folder, 'pipeline.ts'), (await text('pipeline.ts')).replace('linear, ', 'linear, off, '))
    const { rules } = (await vlaJson(folder, ['rules', '.'])) as { rules: Listed[] }
    const of = (id: string): Listed | undefined => rules.find((rule) => rule.id === id)
    expect(of('VLA201')).toMatchObject({ findings: 1, state: 'found', because: [] })
    expect(of('VLA101')).toMatchObject({ findings: 0, state: 'passed', because: [] })
    expect(of('VLA203')).toMatchObject({ off: 'measured', state: 'off' })
    expect(of('VLA020')).toMatchObject({ findings: 1, state: 'found' })
    expect(of('VLA206')).toMatchObject({ findings: 0, state: 'unseen' })
    expect(of('VLA206')?.because.join()).toContain("dataset 'data/arm'")
    const { stdout, stderr } = await vla(folder, ['rules', '.'])
    expect(stdout).toMatch(/^VLA206 .* could not look: .*dataset 'data\/arm'/m)
    expect(stdout).toMatch(/^VLA101 .* passed$/m)
    expect(stderr).toMatch(/^\d+ rules: \d+ passed, \d+ with findings, \d+ could not look, 1 off\n$/)
  })

  it('say that a broken value kept a rule from looking', async () => {
    const broken = tinyPipeline()
      .replace('cpus, ', 'gpus, ')
      .replace('cpus({ processes: 2 })', "gpus('H100-SXM-81GB' as never, { perNode: 2 })")
    await writeFile(join(folder, 'pipeline.ts'), broken)
    await dataset()
    const { rules } = (await vlaJson(folder, ['rules', '.'])) as { rules: Listed[] }
    expect(rules.find(({ id }) => id === 'VLA005')).toMatchObject({ state: 'found' })
    expect(rules.find(({ id }) => id === 'VLA601')).toMatchObject({
      state: 'unseen',
      because: ['the value has the finding VLA005'],
    })
  })

  it('explains a rule, and helps with a wrong id', async () => {
    const { code, stdout } = await vla(folder, ['explain', 'vla101'])
    expect(code).toBe(0)
    expect(stdout).toContain('VLA101 dtype-unsupported-on-gpu')
    expect(await vlaJson(folder, ['explain', '101'])).toMatchObject({ rule: { id: 'VLA101' } })
    expect(await vla(folder, ['explain', 'VLA199'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Did you mean VLA101') as string,
    })
  })
})
