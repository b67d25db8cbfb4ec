/** `vla check --format`: what Actions and code scanning are given. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { version } from '../../sdk/cli/package.ts'
import { entries } from '../../sdk/rules/index.ts'
import { writeDataset } from '../lock/fixtures.ts'
import { parseSarif } from '../locate/sarif.ts'
import { vla, vlaJson } from './io.ts'
import { tinyPipeline } from './pipelines.ts'

// The first check loads the parser of TypeScript; on a busy machine that alone may take long.
vi.setConfig({ testTimeout: 120_000 })

let repository: string
let folder: string
beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'vla-formats-'))
  folder = join(repository, 'robots/my arm')
  await mkdir(join(repository, '.git'))
  await mkdir(join(folder, 'data'), { recursive: true })
  writeDataset(join(folder, 'data/arm'))
  await writeFile(join(folder, 'pipeline.ts'), tinyPipeline({ batch: 13 }))
})
afterEach(async () => {
  await rm(repository, { recursive: true, force: true })
})

const check = (...args: string[]) => vla(folder, ['check', ...args])

describe('github', () => {
  it('annotates on stdout, with names relative to the repository, and counts on stderr', async () => {
    const { code, stdout, stderr } = await check('--format', 'github')
    expect(code).toBe(4)
    expect(stdout).toMatch(
      /^::error file=robots\/my arm\/pipeline\.ts,line=17,endLine=17,col=42,endColumn=44,title=VLA201 batch-not-divisible::.*%0Afix: .*\n$/,
    )
    expect(stderr).toMatch(/^1 error\n/)
  })
  it('says nothing of a clean declaration', async () => {
    await writeFile(join(folder, 'pipeline.ts'), tinyPipeline())
    expect(await check('--format=github')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('ok  0 findings') as string,
    })
  })
  it('annotates what keeps it from its job', async () => {
    expect(await check('nothing.ts', '--format', 'github')).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(/^::error title=vla::There is no nothing\.ts.*\n$/) as string,
    })
    await writeFile(join(folder, 'pipeline.ts'), 'const a = = 1\n')
    expect(await check('--format', 'github')).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(
        /^::error file=robots\/my arm\/pipeline\.ts,line=1,.*VLA009.*Syntax error/,
      ) as string,
    })
  })
})

describe('sarif', () => {
  it('fits the published schema, with all rules', async () => {
    const { code, stdout, stderr } = await check('--format', 'sarif')
    expect(code).toBe(4)
    const [run] = parseSarif(stdout).runs
    expect(run.tool.driver.version).toBe(version)
    expect(run.tool.driver.rules.map(({ id }) => id)).toEqual(entries.map(({ id }) => id))
    expect(run.results.map(({ ruleId }) => ruleId)).toEqual(['VLA201'])
    expect(run.tool.driver.rules[run.results[0]?.ruleIndex ?? -1]?.id).toBe('VLA201')
    expect(run.results[0]?.locations[0].physicalLocation.artifactLocation).toEqual({
      uri: 'robots/my%20arm/pipeline.ts',
      uriBaseId: '%SRCROOT%',
    })
    expect(run.results[0]?.fixes?.length).toBeGreaterThan(0)
    expect(stderr).toMatch(/^1 error\n/)
  })
  it('is the same from another working directory', async () => {
    const elsewhere = await vla(repository, ['check', folder, '--format', 'sarif'])
    expect(elsewhere.stdout).toBe((await check('--format', 'sarif')).stdout)
  })
  it('says that a file could not be loaded', async () => {
    await writeFile(join(folder, 'pipeline.ts'), 'const a = = 1\n')
    const { code, stdout } = await check('--format', 'sarif')
    const [run] = parseSarif(stdout).runs
    expect([code, run.invocations, run.results.map(({ ruleId }) => ruleId)]).toEqual([
      2,
      [{ executionSuccessful: false, exitCode: 2 }],
      ['VLA009'],
    ])
  })
  it('is not written where there is no declaration, so that no alert is closed by it', async () => {
    expect(await check('nothing.ts', '--format', 'sarif')).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('json', () => {
  it('is the object of --json', async () => {
    await check()
    const { code, stdout } = await check('--format', 'json')
    expect(code).toBe(4)
    expect(JSON.parse(stdout)).toEqual(await vlaJson(folder, ['check']))
    expect(JSON.parse((await check('nothing.ts', '--format=json')).stdout)).toMatchObject({ error: { kind: 'failed' } })
  })
  it('does not go with another form', async () => {
    expect(await vlaJson(folder, ['check', '--format', 'sarif'])).toMatchObject({
      exitCode: 2,
      error: { kind: 'usage' },
    })
    expect(await check('--format', 'xml')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('pretty, json, github, sarif') as string,
    })
  })
})
