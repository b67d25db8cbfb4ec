import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { EXIT } from '../../sdk/cli/exit-codes.ts'
import { run } from '../../sdk/cli/run.ts'
import { version } from '../../sdk/cli/package.ts'
import { cliSchemaFile } from '../../sdk/cli/schema.ts'
import { fakeIo, vla, vlaJson } from './io.ts'

const COMMANDS = 'init import check lock plan build run pack convert inspect explain rules env'.split(' ')
const here = tmpdir()

describe('exit codes', () => {
  it('are the documented ones', async () => {
    expect(EXIT).toEqual({ ok: 0, bug: 1, failed: 2, declined: 3, findings: 4, stale: 5, sigint: 130, sigterm: 143 })
    const { stdout } = await vla(here, ['--help'])
    for (const code of Object.values(EXIT)) expect(stdout).toContain(String(code))
  })
})

describe('a bug of ours', () => {
  it('exits with 1, with the stack and where to report it', async () => {
    const io = fakeIo(here)
    const broken = {
      ...io,
      stdout: {
        write: () => {
          throw new Error('the disk of stdout is on fire')
        },
      },
    }
    expect(await run(['rules'], broken)).toBe(1)
    expect(io.told.stderr).toContain('the disk of stdout is on fire\n    at ')
    expect(io.told.stderr).toContain('This is a bug in vla')
  })
})

describe('help and version', () => {
  it('go to stdout with code 0', async () => {
    expect(await vla(here, ['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    const help = await vla(here, ['--help'])
    expect(help).toMatchObject({ code: 0, stderr: '' })
    for (const command of COMMANDS) expect(help.stdout).toMatch(new RegExp(`^  ${command}\\b`, 'm'))
  })

  it.each(COMMANDS)('%s has help, with --json', async (command) => {
    const { code, stdout, stderr } = await vla(here, [command, '--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('--json')
  })
})

describe('wrong usage', () => {
  it.each([
    [['chek'], 'unknown command', 'check'],
    [['check', '--jsn'], 'unknown option', '--json'],
    [['build', '--ot', 'x'], 'unknown option', '--out'],
    [['check', 'a.ts', 'b.ts'], 'too many arguments', ''],
    [['explain'], 'missing required argument', ''],
    [['check', '--max-warnings', 'few'], 'whole number', ''],
    [['init', '--template', 'nothing'], 'Allowed choices are quickstart', ''],
    [['run', 'x', '--port', '0'], 'port from 1 to 65535', ''],
  ])('%j exits with 2 and says %s', async (argv, message, suggestion) => {
    const { code, stdout, stderr } = await vla(here, argv)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(message)
    if (suggestion !== '') expect(stderr).toContain(`Did you mean ${suggestion}?`)
  })

  it('without a command shows the help on stderr', async () => {
    const { code, stdout, stderr } = await vla(here, [])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Usage: vla')
  })

  it('is an object with --json', async () => {
    expect(await vlaJson(here, ['check', '--jsn'])).toMatchObject({
      ok: false,
      exitCode: 2,
      command: 'check',
      error: { kind: 'usage' },
    })
    expect(await vlaJson(here, ['chek'])).toMatchObject({
      ok: false,
      exitCode: 2,
      command: '',
      error: { kind: 'usage' },
    })
  })
})

describe('schemas/cli.schema.json', () => {
  it('is what the code says (npx tsx scripts/write-schemas.ts)', () => {
    expect(readFileSync(new URL('../../schemas/cli.schema.json', import.meta.url), 'utf8')).toBe(cliSchemaFile())
  })
})
