/**
 * What every example becomes, as whole trees of real files in `test/golden/<example>`; `vla_runtime/` stands there as one hash.
 *
 * After a change that is meant: `UPDATE_GOLDEN=1 npx vitest run --project fast test/emit/golden.test.ts`, and read the diff.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emit } from '../../sdk/emit/emit.ts'
import type { EmittedFiles } from '../../sdk/emit/emitted.ts'
import { manifestPath, writeProject } from '../../sdk/emit/write.ts'
import { formatPython } from '../../sdk/emit/python/format.ts'
import { context, emittedPython } from './context.ts'
import { exampleNames, inspectExample, loadExample, type Example } from './examples.ts'
import { compilePython, parseBash, repository, ruff, shellcheck } from './tools.ts'

const update = process.env['UPDATE_GOLDEN'] === '1'
const golden = path.join(repository, 'test/golden')
const runtimeFile = 'vla_runtime.sha256'
const isRuntime = (file: string): boolean => file.startsWith('vla_runtime/')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'vla-golden-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** Every file below a folder, by POSIX path. */
async function tree(root: string): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  if (!existsSync(root)) return found
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = path.join(entry.parentPath, entry.name)
    found.set(path.relative(root, file).split(path.sep).join('/'), await readFile(file, 'utf8'))
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The built tree as it is kept: copied modules as one hash over their names and contents, and out of the manifest. */
function kept(built: ReadonlyMap<string, string>): Map<string, string> {
  const files = new Map([...built].filter(([file]) => !isRuntime(file)))
  const runtime = [...built].filter(([file]) => isRuntime(file))
  const hash = createHash('sha256')
  for (const [file, content] of runtime) hash.update(`${file}\0${content}\0`)
  const digest = hash.digest('hex')
  files.set(runtimeFile, `${digest}\n${runtime.map(([file]) => `${file}\n`).join('')}`)
  const lines = (files.get(manifestPath) ?? '').split('\n')
  const first = lines.findIndex((line) => line.includes('"vla_runtime/'))
  const rest = lines.filter((line) => !line.includes('"vla_runtime/'))
  rest.splice(first, 0, `    "vla_runtime/**": { "sha256": "${digest}", "kind": "managed" }`)
  files.set(manifestPath, rest.join('\n'))
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Writes a project and reads back what lies there. */
async function write(example: Example, files: EmittedFiles, out: string): Promise<Map<string, string>> {
  const options = { tool: `vla ${context.version}`, planHash: example.plan.hash, mode: 'write' } as const
  expect((await writeProject({ out, files, ...options })).blocked).toEqual([])
  return tree(out)
}

/** The same data with the keys of every record the other way round. Maps whose order has a meaning of its own do not exist. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  const entries = Reflect.ownKeys(value).reverse()
  return Object.fromEntries(entries.map((key) => [key, reversed((value as Record<PropertyKey, unknown>)[key])]))
}

describe.each(exampleNames)('examples/%s', (name) => {
  let example: Example
  let files: EmittedFiles
  let built: Map<string, string>
  beforeAll(async () => {
    example = await loadExample(name)
    files = emit(example.plan, context)
    built = await write(example, files, path.join(folder, name))
  }, 60_000)

  test('has no findings but what only the target can answer', () => {
    const { findings } = example
    expect(findings.filter(({ severity }) => severity !== 'info').map(({ id, message }) => `${id} ${message}`)).toEqual(
      [],
    )
  })

  test('becomes the golden tree', async () => {
    const expected = path.join(golden, name)
    const wanted = kept(built)
    if (update) {
      await rm(expected, { recursive: true, force: true })
      for (const [file, content] of wanted) {
        await mkdir(path.dirname(path.join(expected, file)), { recursive: true })
        await writeFile(path.join(expected, file), content)
      }
    }
    const found = await tree(expected)
    expect([...found.keys()]).toEqual([...wanted.keys()])
    for (const [file, content] of wanted) {
      expect(content, `${name}/${file}; if the change is meant: UPDATE_GOLDEN=1`).toBe(found.get(file))
    }
  })

  test('gives the same bytes in another folder, and with reordered keys', async () => {
    expect(await write(example, files, path.join(folder, 'elsewhere', 'deeper', name))).toEqual(built)
    const other = inspectExample(name, reversed(example.declaration))
    expect(other.plan.hash).toBe(example.plan.hash)
    expect(emit(other.plan, context)).toEqual(files)
  })

  test('is valid and formatted Python and shell', () => {
    const python = emittedPython(files)
    compilePython(python)
    for (const { name: file, source } of python) {
      expect(formatPython(source, file)).toBe(source)
      expect(ruff(file, source)).toEqual([])
    }
    for (const [file, { content }] of files) {
      if (!file.startsWith('launch/')) continue
      parseBash(content)
      expect(shellcheck(content) ?? '').toBe('')
    }
  })
})

test('every golden tree belongs to an example', async () => {
  expect((await readdir(golden)).sort()).toEqual(exampleNames)
})
