import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tsImport } from 'tsx/esm/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadFailure, notAPipeline } from '../../sdk/locate/load-failure.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'vla-load-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
})
afterAll(() => {
  rmSync(folder, { recursive: true })
})

async function thrownBy(text: string): Promise<unknown> {
  const file = join(folder, 'pipeline.ts')
  writeFileSync(file, text)
  try {
    await tsImport(`${file}?${String(Math.random())}`, import.meta.url)
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}
/** In a process of its own: vitest replaces the stack traces that tsx maps. */
function stackFromNode(text: string): Error {
  const file = join(folder, 'pipeline.ts')
  writeFileSync(file, text)
  const script = `import { tsImport } from 'tsx/esm/api'
    try { await tsImport(${JSON.stringify(file)}, import.meta.url) } catch (e) { console.log(JSON.stringify([e.name, e.message, e.stack])) }`
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    cwd: import.meta.dirname,
  })
  const [name, message, stack] = JSON.parse(printed) as [string, string, string]
  return Object.assign(new Error(message), { name, stack })
}
const diagnose = (thrown: unknown): ReturnType<typeof loadFailure> =>
  loadFailure(thrown, { file: join(folder, 'pipeline.ts'), root: folder })

describe('what tsx really throws', () => {
  it('a syntax error has its place', async () => {
    const found = diagnose(await thrownBy('export const a = 1\nexport default { a: 1,, }\n'))
    expect(found).toMatchObject({
      id: 'VLA009',
      file: 'pipeline.ts',
      line: 2,
      column: 23,
      exact: true,
      severity: 'error',
    })
    expect(found.message).toBe('Syntax error: Expected identifier but found ","')
  })
  it('an exception has the place where it was thrown', () => {
    const found = diagnose(
      stackFromNode('const f = (): number => {\n  throw new TypeError("no data")\n}\nexport default f()\n'),
    )
    expect(found).toMatchObject({ file: 'pipeline.ts', line: 2, column: 9, exact: true })
    expect(found.message).toBe('pipeline.ts could not be run: TypeError: no data')
  })
  it('a missing package has the place of its import', async () => {
    const found = diagnose(await thrownBy(`import { x } from 'no-such-package-here'\nexport default x\n`))
    expect(found).toMatchObject({ line: 1, column: 20, exact: true, message: "Cannot find 'no-such-package-here'." })
    expect(found.fix).toContain('npm install no-such-package-here')
  })
  it('a missing file has the place of its import', async () => {
    const found = diagnose(await thrownBy(`\nimport { x } from './shared/robots.ts'\nexport default x\n`))
    expect(found).toMatchObject({ line: 2, column: 20, exact: true, message: "Cannot find './shared/robots.ts'." })
  })
  it('something that is no error', async () => {
    expect(diagnose(await thrownBy(`throw 'nope'\n`))).toMatchObject({
      line: 1,
      exact: false,
      message: 'pipeline.ts could not be run: thrown: nope',
    })
  })
})

describe('a default export that is no pipeline', () => {
  it('is shown', () => {
    const found = notAPipeline(
      {},
      { file: '/p/pipeline.ts', root: '/p', read: () => 'const a = 1\nexport default {}\n' },
    )
    expect(found).toMatchObject({
      line: 2,
      column: 1,
      message: 'pipeline.ts exports an object that defineVLAPipeline did not make.',
    })
  })
  it('or missed', () => {
    const found = notAPipeline(undefined, { file: '/p/pipeline.ts', root: '/p', read: () => 'export const a = 1\n' })
    expect(found).toMatchObject({ line: 1, exact: false, message: 'pipeline.ts has no default export.' })
  })
})
