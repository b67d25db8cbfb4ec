/** Emitted Python against the real environment: what pyright cannot resolve does not exist, what it cannot type is wrong. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { emit } from '../../sdk/emit/emit.ts'
import { writeProject } from '../../sdk/emit/write.ts'
import { context } from './context.ts'
import { planOf, plans } from './plans.ts'
import { repository } from './tools.ts'

const interpreter = path.join(repository, '.venv/bin/python')
const names = Object.keys(plans) as (keyof typeof plans)[]

let folder: string
let errors: string[]
beforeAll(async () => {
  if (!existsSync(interpreter))
    throw new Error(`these tests need the Python environment in ${path.dirname(path.dirname(interpreter))}: vla env`)
  folder = await mkdtemp(path.join(tmpdir(), 'vla-python-'))
  const write = async (name: keyof typeof plans, out: string): Promise<void> => {
    const plan = planOf(plans[name]())
    await writeProject({
      out: path.join(folder, out),
      files: emit(plan, context),
      tool: 'vla',
      planHash: plan.hash,
      mode: 'write',
    })
  }
  for (const name of names) await write(name, name)
  // One more with mistakes in it, to see that they would be found.
  await write('bare', 'wrong')
  const train = path.join(folder, 'wrong/train.py')
  const source = await readFile(train, 'utf8')
  await writeFile(
    train,
    source
      .replace('import device_mesh,', 'import device_mess,')
      .replace('schedule.step()', 'schedule.stepp()')
      .replace('run: ', 'run'),
  )
  const hooks = path.join(folder, 'wrong/hooks.py')
  await writeFile(hooks, (await readFile(hooks, 'utf8')).replace('update: int', 'update'))

  const roots = [...names, 'wrong']
  await writeFile(
    path.join(folder, 'pyrightconfig.json'),
    JSON.stringify({
      include: roots.map((root) => `${root}/*.py`),
      executionEnvironments: roots.map((root) => ({ root })),
      pythonVersion: '3.12',
      typeCheckingMode: 'standard',
      reportMissingParameterType: 'error',
      reportMissingImports: 'error',
    }),
  )
  errors = pyright(folder)
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

interface Report {
  readonly generalDiagnostics: readonly {
    readonly file: string
    readonly severity: string
    readonly message: string
    readonly rule?: string
    readonly range: { readonly start: { readonly line: number } }
  }[]
}

/** Errors as `file:line: message (rule)`. */
function pyright(project: string): string[] {
  const cli = createRequire(import.meta.url)
    .resolve('pyright/package.json')
    .replace('package.json', 'index.js')
  const { stdout } = spawnSync(
    process.execPath,
    [cli, '--outputjson', '--pythonpath', interpreter, '--project', project],
    { encoding: 'utf8', maxBuffer: 1 << 28 },
  )
  return (JSON.parse(stdout) as Report).generalDiagnostics
    .filter(({ severity }) => severity === 'error')
    .map(
      ({ file, range, message, rule }) =>
        `${path.relative(project, file)}:${range.start.line + 1}: ${message} (${rule ?? ''})`,
    )
}

describe('pyright, unresolved imports and untyped parameters included', () => {
  test.each(names)('finds nothing in %s', (name) => {
    expect(errors.filter((error) => error.startsWith(`${name}/`))).toEqual([])
  })

  test('would find mistakes', () => {
    const found = errors.filter((error) => error.startsWith('wrong/')).join('\n')
    expect(found).toMatch(/device_mess.*reportAttributeAccessIssue/s)
    expect(found).toMatch(/stepp.*reportAttributeAccessIssue/s)
    expect(found).toContain('reportMissingParameterType')
  })

  test("finds nothing with the project's own settings", () => {
    expect(pyright(path.join(folder, 'small'))).toEqual([])
  })
})

test('every script imports, and the model is built, in a process that sees the project alone', () => {
  const program = `
import sys
sys.path.insert(0, ".")
import train, model, preflight, pack, evaluate, hooks
import torch
with torch.device("meta"):
    policy = model.build_model()
print(sum(p.numel() for p in policy.parameters()))
`
  const output = execFileSync(interpreter, ['-I', '-c', program], {
    cwd: path.join(folder, 'small'),
    encoding: 'utf8',
    env: { ...process.env, HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1' },
  })
  expect(Number(output.trim().split('\n').at(-1))).toBeGreaterThan(100_000)
})
