/** Scaffolds as a user gets them: the packed tarball, installed in the scaffolded project, and the installed program on it. */
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TEMPLATES } from '../../sdk/cli/init.ts'
import { cliOutput } from '../../sdk/cli/schema.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

let folder: string
let tarball: string
let installed: { for: string; at: string } | undefined
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-package-'))
  // Built beside the checkout: other tests may be reading its dist.
  await execa('npx', ['tsc', '-p', 'tsconfig.build.json', '--outDir', 'dist'], { cwd: root })
  await execa('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: root })
  const [name] = (await readdir(folder)).filter((file) => file.endsWith('.tgz'))
  tarball = join(folder, name ?? '')
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

describe('the tarball', () => {
  it('passes publint and are-the-types-wrong', async () => {
    await execa('npx', ['publint', '--strict', tarball], { cwd: root })
    await execa('npx', ['attw', tarball, '--profile', 'esm-only'], { cwd: root })
  })

  it('holds what is needed at run time and no test', async () => {
    const { stdout } = await execa('tar', ['-tzf', tarball])
    const files = stdout.split('\n').map((file) => file.replace(/^package\//, ''))
    for (const file of [
      'dist/cli/bin.js',
      'dist/index.d.ts',
      'ts-plugin/package.json',
      'ts-plugin/index.cjs',
      'templates/projects/common/.vscode/settings.json',
      'examples/quickstart/record.py',
      'catalog/recipes/README.md',
      'catalog/recipes/own-34b/vla.lock.json',
      'catalog/recipes/pi05/pipeline.ts',
      'schemas/cli.schema.json',
    ])
      expect(files).toContain(file)
    expect(files.filter((file) => /^(?:sdk|test|scripts)\/|__pycache__|\.venv|node_modules/.test(file))).toEqual([])
  })
})

describe.each(Object.keys(TEMPLATES))('scaffold %s', (template) => {
  it('installs the tarball, passes check and tsc, and builds or says what it lacks', async () => {
    const project = join(folder, template)
    await execa('node', [
      join(root, 'dist/cli/bin.js'),
      'init',
      project,
      '--template',
      template,
      '--yes',
      '--no-install',
      '--no-git',
    ])
    const manifest = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>
    }
    manifest.devDependencies['vla-pipeline'] = `file:${tarball}`
    await writeFile(join(project, 'package.json'), JSON.stringify(manifest))
    // The templates have the same dependencies: the second takes what the first has installed.
    installed ??= { for: JSON.stringify(manifest.devDependencies), at: join(project, 'node_modules') }
    expect(JSON.stringify(manifest.devDependencies)).toBe(installed.for)
    if (installed.at.startsWith(project))
      await execa('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: project })
    else await symlink(installed.at, join(project, 'node_modules'))

    const run = async (...args: string[]): Promise<{ exitCode: number; output: Record<string, unknown> }> => {
      const { exitCode, stdout } = await execa('npx', ['vla', ...args, '--json'], { cwd: project, reject: false })
      return { exitCode: exitCode ?? -1, output: cliOutput.parse(JSON.parse(stdout)) }
    }
    expect(await run('check')).toMatchObject({ exitCode: 0, output: { ok: true } })
    await execa('npx', ['tsc'], { cwd: project })
    // As tsserver loads it: required from the project, and found without `exports`.
    const load = `const { server } = require('typescript'); const plugin = server.Project.resolveModule('vla-pipeline/ts-plugin', process.cwd(), require('typescript').sys, () => {}); console.log(typeof plugin, typeof plugin?.({ typescript: {} }).create)`
    expect((await execa('node', ['-e', load], { cwd: project })).stdout).toBe('function function')
    expect((await execa('node', ['-p', `typeof require('vla-pipeline/ts-plugin')`], { cwd: project })).stdout).toBe(
      'function',
    )
    expect(await run('build', '--out', 'build')).toMatchObject({
      exitCode: 2,
      output: { error: { message: expect.stringContaining('leaves open') as string } },
    })
    expect(await run('explain', 'VLA101')).toMatchObject({ exitCode: 0 })
    expect((await execa('npm', ['ls', '--all', '--parseable'], { cwd: project, reject: false })).stdout).not.toContain(
      'vitest',
    )
  })
})
