import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { lockRules } from '../../sdk/lock/findings.ts'
import { lockSchema } from '../../sdk/lock/lock.ts'
import { compareLock, loadLock, lockFileName, lockText, makeLock, readLock, writeLock } from '../../sdk/lock/make.ts'
import { lockSchemaFile } from '../../sdk/lock/schema-file.ts'
import { sourceKey } from '../../sdk/lock/source.ts'
import { info, parquet, temporaryFolder, writeDataset, writeWeights } from './fixtures.ts'

const declaration = {
  model: {
    kind: 'composed',
    vision: {
      kind: 'fused',
      towers: [
        { kind: 'timm', name: 'a', weights: './towers/a' },
        { kind: 'transformers', source: 'org/tower', revision: 'r1' },
      ],
    },
    language: { kind: 'causalLM', source: './llm' },
  },
  data: [
    { from: { kind: 'lerobotDataset', root: './data/arm/' }, weight: 1 },
    { from: { kind: 'lerobotDataset', repo: 'org/hub' }, weight: 1 },
  ],
}

function project(): string {
  const folder = temporaryFolder()
  writeDataset(join(folder, 'data/arm'))
  writeWeights(join(folder, 'towers/a'))
  writeWeights(join(folder, 'llm'))
  return folder
}

const briefly = (findings: readonly { id: string; severity: string; path: readonly unknown[] }[]): string[] =>
  findings.map(({ id, severity, path }) => `${id} ${severity} ${path.join('.')}`)

describe('makeLock', () => {
  it('knows each source as the declaration writes it, and says where it could not look', () => {
    const { lock, findings } = makeLock(declaration, project())
    expect(Object.keys(lock.datasets)).toEqual(['data/arm'])
    expect(Object.keys(lock.weights)).toEqual(['towers/a', 'llm'])
    expect(briefly(findings)).toEqual(['VLA020 info data.1.from.repo', 'VLA024 info model.vision.towers.1.source'])
    expect(lockSchema.safeParse(lock).success).toBe(true)
  })

  it('gives the same bytes in another folder, with no trace of it', () => {
    const [first, second] = [project(), project()]
    const text = lockText(makeLock(declaration, first).lock)
    expect(lockText(makeLock(declaration, second).lock)).toBe(text)
    expect(text).not.toContain(first)
    expect(text.endsWith('}\n')).toBe(true)
  })

  it('knows an absolute source by its name and a hash', () => {
    const folder = project()
    const root = join(folder, 'data/arm')
    const { lock } = makeLock({ data: { kind: 'lerobotDataset', root } }, '/')
    expect(Object.keys(lock.datasets)).toEqual([sourceKey({ root })])
    expect(sourceKey({ root })).toMatch(/^absolute:arm-[0-9a-f]{12}$/)
    expect(lockText(lock)).not.toContain(folder)
  })

  it('turns every problem into a finding with a message, a reason and a fix', () => {
    const folder = temporaryFolder()
    writeDataset(join(folder, 'old'), { 'meta/info.json': JSON.stringify(info({ codebase_version: 'v2.1' })) })
    writeDataset(join(folder, 'empty'), {
      'meta/info.json': JSON.stringify(info({ total_episodes: 0, total_frames: 0 })),
    })
    writeDataset(join(folder, 'torn'), { 'data/chunk-000/file-000.parquet': parquet(300).subarray(0, 20) })
    writeDataset(join(folder, 'short'), { 'data/chunk-000/file-001.parquet': null })
    const roots = ['nothing', 'old', 'empty', 'torn', 'short']
    const { findings } = makeLock(
      { data: roots.map((root) => ({ from: { kind: 'lerobotDataset', root }, weight: 1 })) },
      folder,
    )
    expect(briefly(findings)).toEqual([
      'VLA020 warning data.0.from.root',
      'VLA026 error data.1.from.root',
      'VLA022 error data.2.from.root',
      'VLA021 error data.3.from.root',
      'VLA021 error data.4.from.root',
    ])
    expect(findings.map(({ message }) => message)).toEqual([
      "No LeRobot dataset at 'nothing': there is no such folder.",
      "The dataset at 'old' has format v2.1; LeRobot reads v3.0.",
      "The dataset at 'empty' has no episodes.",
      "The dataset at 'torn' cannot be used: data/chunk-000/file-000.parquet: its Parquet footer is missing: the recording was not finalised, or the file was cut off.",
      "The dataset at 'short' is not whole: the files in data/ hold 300 frames, meta/info.json says 400.",
    ])
    expect(findings[1]?.fix).toContain('convert_dataset_v21_to_v30')
    for (const finding of findings) expect(finding.why).toBe(lockRules[finding.id as keyof typeof lockRules].why)
  })

  it('reports weights that are missing or cut off', () => {
    const folder = temporaryFolder()
    writeWeights(join(folder, 'cut'), { 'model.safetensors': Buffer.from([9, 0, 0, 0, 0, 0, 0, 0, 123]) })
    const { findings } = makeLock({ model: { kind: 'openvla', weights: './cut' } }, folder)
    expect(findings.map(({ message }) => message)).toEqual([
      "The weights at './cut' cannot be used: model.safetensors: it is cut off inside its header (9 bytes).",
    ])
    expect(
      makeLock({ model: { kind: 'openvla', weights: './gone' } }, folder).findings.map(({ message }) => message),
    ).toEqual(["There are no weights at './gone'."])
  })

  it.each([
    [undefined],
    [null],
    [3],
    [{}],
    [{ data: 3, model: [] }],
    [{ data: [null, { from: 1 }], model: { vision: { towers: [null] }, language: 7, weights: 2 } }],
  ])('survives the declaration %j', (broken) => {
    expect(makeLock(broken, '/')).toEqual({ lock: { schemaVersion: 1, datasets: {}, weights: {} }, findings: [] })
  })
})

describe('the lock file', () => {
  it('is written once, read back, and left alone when nothing changed', () => {
    const folder = project()
    const { lock } = makeLock(declaration, folder)
    expect(readLock(folder)).toEqual({ lock: undefined, findings: [] })
    expect(writeLock(folder, lock)).toBe(true)
    const before = statSync(join(folder, lockFileName)).mtimeMs
    expect(writeLock(folder, lock)).toBe(false)
    expect(statSync(join(folder, lockFileName)).mtimeMs).toBe(before)
    expect(readLock(folder)).toEqual({ lock, findings: [] })
  })

  it.each([
    ['{"schemaVersion": 1, "data', 'vla.lock.json is not valid JSON'],
    ['{"schemaVersion": 2, "datasets": {}, "weights": {}}', 'vla.lock.json does not have the form of a lock'],
  ])('is refused when broken: %s', (content, message) => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, lockFileName), content)
    const { lock, findings } = readLock(folder)
    expect(lock).toBeUndefined()
    expect(briefly(findings)).toEqual(['VLA027 error '])
    expect(findings[0]?.message).toContain(message)
  })

  it('has a published schema that is up to date and that accepts it', () => {
    const published = readFileSync(new URL('../../schemas/lock.schema.json', import.meta.url), 'utf8')
    expect(published, 'run npx tsx scripts/write-schemas.ts').toBe(lockSchemaFile())
    const validate = new Ajv2020({ strict: false }).compile(JSON.parse(published) as object)
    expect(validate(JSON.parse(lockText(makeLock(declaration, project()).lock)))).toBe(true)
    expect(validate({ schemaVersion: 1, datasets: { x: {} }, weights: {} })).toBe(false)
  })
})

describe('compareLock and loadLock', () => {
  it('finds that the data changed, and says in what', () => {
    const folder = project()
    const { lock } = makeLock(declaration, folder)
    writeDataset(join(folder, 'data/arm'), { 'meta/info.json': JSON.stringify(info({ total_frames: 401, fps: 10 })) })
    const findings = compareLock(lock, makeLock(declaration, folder).lock, declaration)
    expect(briefly(findings)).toEqual(['VLA023 error data.0.from.root'])
    expect(findings[0]?.message).toBe(
      "vla.lock.json describes another state of dataset 'data/arm': fps 80 in the lock, 10 at hand; frames 400 in the lock, 401 at hand.",
    )
    expect(compareLock(undefined, lock, declaration)).toEqual([])
  })

  it('plans with the file, keeps what is not at hand, and drops what is no longer declared', () => {
    const folder = project()
    const { lock } = makeLock(declaration, folder)
    writeLock(folder, { ...lock, weights: { ...lock.weights, other: lock.weights.llm ?? expect.fail() } })
    rmSync(join(folder, 'data'), { recursive: true })
    rmSync(join(folder, 'llm'), { recursive: true })
    const loaded = loadLock(declaration, folder)
    expect(loaded.lock).toEqual(lock)
    expect(loaded.fresh).toEqual(lock)
    expect(loaded.missing).toBe(false)
    expect(briefly(loaded.findings)).toEqual([
      'VLA020 info data.1.from.repo',
      'VLA024 info model.vision.towers.1.source',
    ])
  })

  it('takes what is at hand where there is no file', () => {
    const folder = project()
    const loaded = loadLock(declaration, folder)
    expect(loaded.lock).toEqual(loaded.fresh)
    expect(loaded.missing).toBe(true)
    expect(loadLock({}, folder)).toEqual({
      lock: undefined,
      fresh: { schemaVersion: 1, datasets: {}, weights: {} },
      missing: false,
      findings: [],
    })
  })

  it('lets check write neither over a broken file, nor what is broken, nor over a disagreement', () => {
    const folder = project()
    writeFileSync(join(folder, lockFileName), '<<<<<<< HEAD')
    expect(loadLock(declaration, folder).missing).toBe(false)
    rmSync(join(folder, lockFileName))

    const { lock } = makeLock(declaration, folder)
    writeLock(folder, { ...lock, weights: {} })
    writeDataset(join(folder, 'data/arm'), { 'meta/info.json': JSON.stringify(info({ fps: 10 })) })
    const loaded = loadLock(declaration, folder)
    expect(loaded.missing).toBe(true)
    expect(loaded.lock?.datasets['data/arm']?.fps).toBe(80)
    expect(loaded.fresh.datasets['data/arm']?.fps).toBe(10)
    expect(briefly(loaded.findings)).toContain('VLA023 error data.0.from.root')

    writeDataset(join(folder, 'data/arm'), { 'data/chunk-000/file-000.parquet': Buffer.from('PAR1') })
    expect(loadLock(declaration, folder).missing).toBe(false)
  })
})
