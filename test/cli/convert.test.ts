import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { packageFolder } from '../../sdk/cli/package.ts'
import { vla, vlaJson } from './io.ts'

/** Stands for the converter: keeps what it was asked and how it was started, and reports what the test wants. */
const CONVERTER = `
import json, os, shutil, sys
assert sys.argv[1:3] == ["-m", "vla_convert"], sys.argv
folder = os.environ["TEST_FOLDER"]
shutil.copy(sys.argv[3], folder + "/asked.json")
json.dump({"path": os.environ["PYTHONPATH"].split(os.pathsep), "cwd": os.getcwd()}, open(folder + "/started.json", "w"))
print("11 of 110 tensors")
report = open(folder + "/report.json").read()
if report == "none":
    raise SystemExit("Traceback: out of luck")
open(sys.argv[4], "w").write(report)
raise SystemExit(0 if json.loads(report)["ok"] else 2)
`

let folder: string
let env: Record<string, string>
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-cli-convert-'))
  env = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', TEST_FOLDER: folder }
  await mkdir(join(folder, '.venv/bin'), { recursive: true })
  await writeFile(join(folder, 'converter.py'), CONVERTER)
  await writeFile(
    join(folder, '.venv/bin/python'),
    `#!/bin/sh\ncase "$2" in *sys.version_info*) echo 3.12.0; echo ${folder}/.venv/bin/python ;; *) exec python3 ${folder}/converter.py "$@" ;; esac\n`,
  )
  await chmod(join(folder, '.venv/bin/python'), 0o755)
  await report({ ok: true, conversion: { notes: ['a note'] }, verification: { agrees: true } })
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

async function report(told: object | 'none'): Promise<void> {
  await writeFile(join(folder, 'report.json'), told === 'none' ? told : JSON.stringify(told))
}

async function read(name: string): Promise<unknown> {
  return JSON.parse(await readFile(join(folder, name), 'utf8')) as unknown
}

describe('vla convert', () => {
  it('hands every answer on, and nothing that was not given', async () => {
    const answers = [
      ...['--chunk', '10', '--tokenizer-length', '200', '--camera', 'base_0_rgb=observation.images.top'],
      ...['--camera', 'left_wrist_0_rgb=none', '--state-dim', '8', '--action-dim', '7', '--delta-actions', '6,-1'],
      ...['--action-names', 'x,y,z', '--discrete-state', 'no', '--asset-id', 'trossen', '--tokenizer', 'words'],
      ...['--dtype', 'bfloat16', '--action-steps', '5', '--reference', 'r.npz', '--other-sizes', '--crop', '0.9'],
    ]
    const { code, stdout, stderr } = await vla(folder, ['convert', 'openpi:in', 'lerobot:out', ...answers], { env })
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    expect(stderr).toBe(`11 of 110 tensors\n${join(folder, 'out')} is ready.\n- a note\n`)
    expect(await read('asked.json')).toEqual({
      from: { layout: 'openpi', path: join(folder, 'in') },
      to: { layout: 'lerobot', path: join(folder, 'out') },
      chunk: 10,
      tokenizer_length: 200,
      cameras: { base_0_rgb: 'observation.images.top', left_wrist_0_rgb: 'none' },
      state_dim: 8,
      action_dim: 7,
      delta_actions: '6,-1',
      action_names: ['x', 'y', 'z'],
      discrete_state: false,
      asset_id: 'trossen',
      tokenizer: join(folder, 'words'),
      dtype: 'bfloat16',
      action_steps: 5,
      reference: join(folder, 'r.npz'),
      other_sizes: true,
      crop: '0.9',
    })
    expect(await read('started.json')).toEqual({
      path: [join(packageFolder, 'templates/convert'), join(packageFolder, 'templates/runtime')],
      cwd: folder,
    })
    await vla(folder, ['convert', 'lerobot:/in', 'openpi:/out', '--tokenizer', 'hub'], { env })
    expect(await read('asked.json')).toEqual({
      from: { layout: 'lerobot', path: '/in' },
      to: { layout: 'openpi', path: '/out' },
      tokenizer: 'hub',
    })
  })

  it('tells as JSON what was done', async () => {
    expect(await vlaJson(folder, ['convert', 'openpi:in', 'lerobot:out'], { env })).toMatchObject({
      ok: true,
      from: { layout: 'openpi', path: join(folder, 'in') },
      conversion: { notes: ['a note'] },
      verification: { agrees: true },
    })
  })

  it('shows what the converter refuses, once', async () => {
    await report({ ok: false, message: 'it is cut off\nCopy it again.' })
    const { code, stdout, stderr } = await vla(folder, ['convert', 'openpi:in', 'lerobot:out'], { env })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe('11 of 110 tensors\nerror  it is cut off\nCopy it again.\n')
    expect(await vlaJson(folder, ['convert', 'openpi:in', 'lerobot:out'], { env })).toMatchObject({
      exitCode: 2,
      error: { kind: 'failed', message: 'it is cut off\nCopy it again.' },
    })
  })

  it('points at what a converter said that ended without a report', async () => {
    await report('none')
    const { code, stderr } = await vla(folder, ['convert', 'openpi:in', 'lerobot:out'], { env })
    expect(code).toBe(2)
    expect(stderr).toContain('Traceback: out of luck')
    expect(stderr).toContain('The converter ended with exit code 1.')
  })

  it.each([
    [['in', 'lerobot:out'], "'in' is no LAYOUT:DIR."],
    [['jax:in', 'lerobot:out'], "'jax:in' is no LAYOUT:DIR."],
    [['openpi:', 'lerobot:out'], "'openpi:' is no LAYOUT:DIR."],
    [['openpi:in'], "missing required argument 'to'"],
    [['openpi:in', 'lerobot:out', '--chunk', '0'], 'A positive whole number is meant.'],
    [['openpi:in', 'lerobot:out', '--chunk', '1.5'], 'A positive whole number is meant.'],
    [['openpi:in', 'lerobot:out', '--camera', 'base_0_rgb'], 'CAMERA=FEATURE is meant'],
    [['openpi:in', 'lerobot:out', '--camera', 'a=b', '--camera', 'a=c'], 'a is given twice.'],
    [['openpi:in', 'lerobot:out', '--discrete-state', 'maybe'], 'Allowed choices are yes, no.'],
    [['openpi:in', 'lerobot:out', '--dtype', 'fp16'], 'Allowed choices are float32, bfloat16.'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await vla(folder, ['convert', ...args], { env })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})
