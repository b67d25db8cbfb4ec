import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TEMPLATES } from '../../sdk/cli/init.ts'
import { vla, vlaJson } from './io.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-template-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe.each(Object.keys(TEMPLATES))('template %s', (template) => {
  it('passes check, and says that the data is not at hand', async () => {
    await vla(folder, ['init', '.', '--template', template, '--yes', '--no-install', '--no-git'])
    const { ok, diagnostics } = (await vlaJson(folder, ['check'])) as {
      ok: boolean
      diagnostics: { id: string; severity: string; message: string }[]
    }
    expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([])
    expect(ok).toBe(true)
    expect(diagnostics.map(({ id }) => id)).toContain('VLA020')
    const others = diagnostics.filter(({ id, severity }) => id !== 'VLA020' && severity !== 'info')
    expect(others).toEqual([])
  })
})

describe('template quickstart', () => {
  it('carries the simulator that the runtime evaluates with', async () => {
    await vla(folder, ['init', '.', '--yes', '--no-install', '--no-git'])
    const source = fileURLToPath(new URL('../../templates/runtime/vla_runtime/simulation.py', import.meta.url))
    expect(await readFile(join(folder, 'simulation.py'), 'utf8')).toBe(await readFile(source, 'utf8'))
  })
})
