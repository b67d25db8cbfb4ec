import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkEnvironment, environmentPython, makeEnvironment } from '../../sdk/python/environment.ts'
import { fakeHost } from './host.ts'

const LOCK = `# by uv
numpy==2.1.0
    # via torch
nvidia-cublas==13.0.0 ; sys_platform == 'linux'
torch==2.11.0
triton==3.5.0
Typing.Extensions==4.12.0
`

let folder: string
let project: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'vla-env-test-'))
  project = join(folder, 'project')
  await mkdir(join(folder, 'bin'), { recursive: true })
  await mkdir(project)
  await writeFile(join(project, 'requirements.lock'), LOCK)
  await script('python3.12', `echo 3.12.4; echo ${join(folder, 'bin/python3.12')}`)
  // A uv that makes a venv whose python answers, and installs by writing the pins of a requirements file down.
  await script(
    'uv',
    `echo "$@" >> ${folder}/uv.log
case "$1 $2" in
  "--version "*) echo uv 0 ;;
  "python find") exit 1 ;;
  "venv --python")
    mkdir -p "$4/bin"
    printf '#!/bin/sh\\ncase "$2" in *importlib*) cat %s/installed.json ;; *) echo 3.12.4; echo %s/bin/python ;; esac\\n' "$4" "$4" > "$4/bin/python"
    chmod +x "$4/bin/python"
    echo '{}' > "$4/installed.json" ;;
  "pip install")
    test -e ${folder}/broken && { echo "error: no route to the index" >&2; exit 2; }
    for last; do :; done
    cp "$last" ${folder}/last-requirements
    venv="$(dirname "$(dirname "$4")")"
    { printf '{'; grep '^[A-Za-z].*==' "$last" | sed 's/ ;.*//; s/==/": "/; s/^/"/; s/$/",/' | tr -d '\\n'; printf '"pip": "1"}'; } > "$venv/installed.json" ;;
esac`,
  )
})
afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

async function script(name: string, body: string): Promise<void> {
  const path = join(folder, 'bin', name)
  await writeFile(path, `#!/bin/sh\n${body}\n`)
  await chmod(path, 0o755)
}

function request(torch?: string): Parameters<typeof makeEnvironment>[0] & { host: ReturnType<typeof fakeHost> } {
  const host = fakeHost({ env: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, HOME: folder }, cwd: folder })
  return { host, requirements: join(project, 'requirements.lock'), directory: project, torch }
}

describe('makeEnvironment', () => {
  it('makes it once and then finds it current', async () => {
    const first = request()
    expect(await makeEnvironment(first)).toMatchObject({
      state: 'made',
      version: '3.12.4',
      packages: 4,
      python: join(project, '.venv/bin/python'),
    })
    expect(first.host.text()).toContain('Python 3.12.4')
    const second = request()
    expect(await makeEnvironment(second)).toMatchObject({ state: 'current' })
    expect(second.host.text()).toBe('')
  })

  it('installs again when the lock file has changed', async () => {
    await makeEnvironment(request())
    await writeFile(join(project, 'requirements.lock'), LOCK.replace('numpy==2.1.0', 'numpy==2.2.0'))
    expect(await checkEnvironment(request())).toMatchObject({
      differences: [{ package: 'numpy', locked: '2.2.0', installed: '2.1.0' }],
    })
    expect(await makeEnvironment(request())).toMatchObject({ state: 'made' })
    expect((await checkEnvironment(request())).differences).toEqual([])
  })

  it("passes --torch on and leaves the device's packages to that build", async () => {
    await makeEnvironment(request('cpu'))
    expect(await readFile(join(folder, 'uv.log'), 'utf8')).toContain('--torch-backend cpu')
    const asked = await readFile(join(folder, 'last-requirements'), 'utf8')
    expect(asked).toContain('torch==2.11.0')
    expect(asked).not.toMatch(/nvidia|triton/)
    expect((await checkEnvironment(request('cpu'))).differences).toEqual([])
  })

  it('notices a package that somebody changed by hand', async () => {
    await makeEnvironment(request())
    await writeFile(join(project, '.venv/installed.json'), '{"torch": "2.11.0+cpu", "numpy": "1.0", "triton": "3.5.0"}')
    expect((await checkEnvironment(request())).differences).toEqual([
      { package: 'numpy', locked: '2.1.0', installed: '1.0' },
      { package: 'typing-extensions', locked: '4.12.0', installed: null },
    ])
  })

  it("shows uv's own words when it fails, and can be run again", async () => {
    await writeFile(join(folder, 'broken'), '')
    const failing = request()
    await expect(makeEnvironment(failing)).rejects.toThrow(/uv could not install the packages \(exit 2\)/)
    expect(failing.host.text()).toContain('no route to the index')
    await rm(join(folder, 'broken'))
    expect(await makeEnvironment(request())).toMatchObject({ state: 'made' })
  })

  it('refuses a broken .venv and a missing lock file with what to do', async () => {
    await mkdir(join(project, '.venv'))
    await expect(makeEnvironment(request())).rejects.toMatchObject({ fix: expect.stringContaining('Remove') as string })
    await expect(checkEnvironment({ ...request(), requirements: join(folder, 'nowhere.lock') })).rejects.toThrow(
      /nowhere.lock is not there/,
    )
  })
})

describe('environmentPython', () => {
  it('takes the nearest .venv at or above the project', async () => {
    const made = await makeEnvironment(request())
    await mkdir(join(project, 'deep/er'), { recursive: true })
    expect(await environmentPython(request().host, join(project, 'deep/er'), undefined)).toBe(made.python)
  })

  it('says how to make one', async () => {
    await expect(environmentPython(request().host, project, undefined)).rejects.toMatchObject({
      fix: `Make one with: vla env ${project}`,
    })
  })

  it('does not fall back where the named one fails', async () => {
    await makeEnvironment(request())
    await expect(environmentPython(request().host, project, join(folder, 'no/python'))).rejects.toThrow(/is not there/)
  })
})
