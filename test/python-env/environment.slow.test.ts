/** The environment for real: a Python of this machine, uv from PyPI, a small lock file. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkEnvironment, makeEnvironment } from '../../sdk/python/environment.ts'
import { fakeHost } from './host.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-env-slow-'))
  await writeFile(join(folder, 'requirements.lock'), 'six==1.17.0\niniconfig==2.1.0\n    # via nothing\n')
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** Without a uv on the path, and with an empty cache: everything has to come from PyPI. */
function request(): Parameters<typeof makeEnvironment>[0] & { host: ReturnType<typeof fakeHost> } {
  const withoutUv = (process.env['PATH'] ?? '').split(delimiter).filter((part) => !part.includes('uvenv'))
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
  const host = fakeHost({
    env: { ...inherited, PATH: withoutUv.join(delimiter), XDG_CACHE_HOME: join(folder, 'cache') },
    cwd: folder,
  })
  return { host, requirements: join(folder, 'requirements.lock'), directory: folder, torch: undefined }
}

describe('makeEnvironment', () => {
  it('makes one from nothing, and finds it again', async () => {
    const first = request()
    const made = await makeEnvironment(first)
    expect(made).toMatchObject({ state: 'made', packages: 2 })
    expect(made.version).toMatch(/^3\.1[23]\./)
    expect(first.host.text()).toContain('Installing 2 packages')
    expect((await execa(made.python, ['-c', 'import six; print(six.__version__)'])).stdout).toBe('1.17.0')
    expect((await checkEnvironment(request())).differences).toEqual([])
    expect(await makeEnvironment(request())).toMatchObject({ state: 'current' })
  })
})
