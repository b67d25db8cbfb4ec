import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CannotDo } from '../../sdk/python/errors.ts'
import { findPython } from '../../sdk/python/find.ts'
import { fakeHost } from './host.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-find-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** A program that answers as an interpreter of that version would. */
async function python(path: string, version: string): Promise<string> {
  return script(path, `echo ${version}; echo ${path}`)
}

async function script(path: string, body: string): Promise<string> {
  await mkdir(join(path, '..'), { recursive: true })
  await writeFile(path, `#!/bin/sh\n${body}\n`)
  await chmod(path, 0o755)
  return path
}

const host = (more: Record<string, string> = {}): ReturnType<typeof fakeHost> =>
  fakeHost({ env: { PATH: join(folder, 'bin'), HOME: folder, ...more }, cwd: folder })

describe('findPython', () => {
  it('passes over a shim that fails and one of another version', async () => {
    await script(join(folder, 'bin/python3.12'), 'echo "pyenv: python3.12: command not found" >&2; exit 127')
    await python(join(folder, 'bin/python3'), '3.11.7')
    const real = await python(join(folder, '.pyenv/versions/3.12.1/bin/python3'), '3.12.1')
    expect(await findPython(host())).toEqual({ path: real, version: '3.12.1' })
  })

  it('prefers 3.12 to a 3.13 that stands before it', async () => {
    await python(join(folder, 'bin/python3.13'), '3.13.0')
    await python(join(folder, 'bin/python3'), '3.13.0')
    const older = await python(join(folder, '.pyenv/versions/3.12.9/bin/python3'), '3.12.9')
    const newer = await python(join(folder, '.pyenv/versions/3.12.10/bin/python3'), '3.12.10')
    expect((await findPython(host())).path).toBe(newer)
    await rm(newer)
    expect((await findPython(host())).path).toBe(older)
  })

  it('takes a 3.13 where there is no 3.12', async () => {
    await python(join(folder, 'bin/python3'), '3.13.2')
    expect((await findPython(host())).version).toBe('3.13.2')
  })

  it('asks uv for the ones it manages', async () => {
    const managed = await python(join(folder, 'uv-data/python3.12'), '3.12.7')
    await script(join(folder, 'bin/uv'), `[ "$6" = 3.12 ] || [ "$5" = 3.12 ] && echo ${managed}`)
    expect((await findPython(host())).path).toBe(managed)
  })

  it('believes VLA_PYTHON and nothing else', async () => {
    await python(join(folder, 'bin/python3.12'), '3.12.1')
    const own = await python(join(folder, 'own/python'), '3.12.3')
    expect((await findPython(host({ VLA_PYTHON: own }))).path).toBe(own)
    await expect(findPython(host({ VLA_PYTHON: join(folder, 'nowhere') }))).rejects.toThrow(
      /where VLA_PYTHON points[^]*nowhere is not there/,
    )
  })

  it('says what was tried and how to install one', async () => {
    await script(join(folder, 'bin/python3.12'), 'echo "not selected" >&2; exit 127')
    await python(join(folder, 'bin/python3'), '3.11.7')
    await script(join(folder, 'bin/python'), 'echo hello')
    const error = await findPython(host()).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(CannotDo)
    const { message, fix } = error as CannotDo
    expect(message).toContain(`${join(folder, 'bin/python3.12')} exits with 127: not selected`)
    expect(message).toContain(`${join(folder, 'bin/python3')} is Python 3.11.7`)
    expect(message).toContain("answered 'hello'")
    expect(fix).toContain('uv python install 3.12')
  })

  it('says so when nothing called python is there', async () => {
    await expect(findPython(host())).rejects.toThrow(/Nothing called python is on the path/)
  })
})
