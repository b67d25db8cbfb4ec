import { chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TEMPLATES } from '../../sdk/cli/init.ts'
import { version } from '../../sdk/cli/package.ts'
import { vla, vlaJson } from './io.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-init-'))
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const QUIET = ['--yes', '--no-install', '--no-git']

describe('vla init', () => {
  it.each(Object.keys(TEMPLATES))('makes a project from %s', async (template) => {
    const { code, stdout, stderr } = await vla(folder, ['init', 'my-robot', '--template', template, ...QUIET])
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    expect(stderr).toContain('1. cd my-robot')
    expect(stderr).toContain('2. npm install')
    const made = await readdir(join(folder, 'my-robot'))
    expect(made).toEqual(
      expect.arrayContaining(['.gitignore', '.vscode', 'README.md', 'package.json', 'pipeline.ts', 'tsconfig.json']),
    )
    expect(made).not.toContain('_gitignore')
    expect(made.includes('simulation.py') && made.includes('record.py')).toBe(template === 'quickstart')
    const manifest = JSON.parse(await readFile(join(folder, 'my-robot/package.json'), 'utf8')) as Record<
      string,
      unknown
    >
    expect(manifest).toMatchObject({
      name: 'my-robot',
      type: 'module',
      devDependencies: { 'vla-pipeline': `^${version}` },
    })
  })

  it('sets the editor up, and leaves settings of its own alone', async () => {
    await mkdir(join(folder, 'mine/.vscode'), { recursive: true })
    await writeFile(join(folder, 'mine/.vscode/settings.json'), '{}')
    const read = async (path: string): Promise<unknown> => JSON.parse(await readFile(join(folder, path), 'utf8'))
    for (const name of ['fresh', 'mine']) {
      expect((await vla(folder, ['init', name, ...QUIET])).code).toBe(0)
      expect(await read(`${name}/tsconfig.json`)).toMatchObject({
        compilerOptions: { plugins: [{ name: 'vla-pipeline/ts-plugin' }] },
      })
    }
    expect(await read('fresh/.vscode/settings.json')).toMatchObject({
      'typescript.tsdk': 'node_modules/typescript/lib',
    })
    expect(await read('mine/.vscode/settings.json')).toEqual({})
  })

  it('makes it here where no folder is named, beside harmless files', async () => {
    await mkdir(join(folder, '.git'))
    await writeFile(join(folder, 'LICENSE'), 'mine')
    expect(await vlaJson(folder, ['init', ...QUIET])).toMatchObject({
      directory: folder,
      template: 'quickstart',
      git: false,
      installed: false,
    })
    expect(await readFile(join(folder, 'LICENSE'), 'utf8')).toBe('mine')
  })

  it('changes nothing in a folder that holds something', async () => {
    await writeFile(join(folder, 'README.md'), 'mine')
    await writeFile(join(folder, 'notes.txt'), 'mine')
    const { code, stderr } = await vla(folder, ['init', '.', ...QUIET])
    expect(code).toBe(2)
    expect(stderr).toContain('is not empty: README.md, notes.txt.')
    expect((await readdir(folder)).sort()).toEqual(['README.md', 'notes.txt'])
  })

  it('refuses a path that is a file', async () => {
    await writeFile(join(folder, 'taken'), '')
    expect(await vla(folder, ['init', 'taken', ...QUIET])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not a folder') as string,
    })
  })

  it('asks nobody where nobody can answer', async () => {
    const { code, stderr } = await vla(folder, ['init', 'x', '--no-install', '--no-git'])
    expect(code).toBe(3)
    expect(stderr).toContain('--template quickstart | openvla-lora | own-vla | smolvla')
    expect(await vlaJson(folder, ['init', 'x'])).toMatchObject({ exitCode: 3, error: { kind: 'declined' } })
    expect(await readdir(folder)).toEqual([])
  })

  it.each([
    [{ npm_config_user_agent: 'pnpm/9.0.0 npm/? node/v20' }, undefined, 'pnpm'],
    [{}, ['yarn.lock', ''], 'yarn'],
    [{}, ['package.json', '{"packageManager": "bun@1.2.0"}'], 'bun'],
    [{}, undefined, 'npm'],
  ])('detects the package manager: %j %j', async (env, file, manager) => {
    if (file !== undefined) await writeFile(join(folder, file[0] ?? ''), file[1] ?? '')
    const output = await vlaJson(folder, ['init', 'x', ...QUIET], { env: { PATH: process.env['PATH'] ?? '', ...env } })
    expect(output).toMatchObject({ packageManager: manager })
  })

  it('makes a git repository unless it is in one, and installs with the package manager', async () => {
    await mkdir(join(folder, 'bin'))
    await writeFile(join(folder, 'bin/npm'), `#!/bin/sh\necho "$@ in $PWD" > ${folder}/npm.log\n`)
    await chmod(join(folder, 'bin/npm'), 0o755)
    const env = { PATH: `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`, HOME: folder }
    expect(await vlaJson(folder, ['init', 'a', '--yes', '--pm', 'npm'], { env })).toMatchObject({
      git: true,
      installed: true,
    })
    expect(await readFile(join(folder, 'npm.log'), 'utf8')).toBe(`install in ${join(folder, 'a')}\n`)
    expect(await vlaJson(join(folder, 'a'), ['init', 'b', '--yes', '--no-install'], { env })).toMatchObject({
      git: false,
    })
  })

  it('says what to do when the installation fails', async () => {
    const { code, stderr } = await vla(folder, ['init', 'a', '--yes', '--no-git', '--pm', 'bun'], {
      env: { PATH: '/nowhere' },
    })
    expect(code).toBe(2)
    expect(stderr).toContain('The project was made, but bun install failed')
    expect(stderr).toContain(`cd ${join(folder, 'a')} && bun install`)
  })
})
