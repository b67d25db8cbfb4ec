/**
 * Times whole processes of the built command line on the largest example: `npm run build && npm run bench:cli [-- RUNS]`.
 *
 * Prints the median of 10 for check without findings, check with findings, build, and a save under --watch until its findings are told,
 * each beside its limit; exits with 1 above one.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const vla = join(root, 'dist/cli/bin.js')
const runs = Number(process.argv[2] ?? 10)
const skipped = /^(?:build|data|weights|runs|packages|node_modules|\.venv|__pycache__)$/

function largestExample(): string {
  const folders = [join(root, 'examples'), join(root, 'templates/projects')]
  const pipelines = folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)))
    .filter((file) => file.endsWith('/pipeline.ts') && !file.includes('/node_modules/'))
    .sort((a, b) => statSync(b).size - statSync(a).size)
  const [largest] = pipelines.filter((file) => run(['check', file]).status === 0)
  if (largest === undefined) throw new Error('no example checks clean')
  return largest
}

function run(args: readonly string[]): { status: number; seconds: number; stderr: string } {
  const started = performance.now()
  const { status, stderr } = spawnSync(process.execPath, [vla, ...args], { encoding: 'utf8' })
  return { status: status ?? -1, seconds: (performance.now() - started) / 1000, stderr }
}

function median(args: readonly string[], expected: number, before: () => void = () => undefined): number {
  const times: number[] = []
  for (let i = 0; i < runs; i++) {
    before()
    const { status, seconds, stderr } = run(args)
    if (status !== expected)
      throw new Error(`vla ${args.join(' ')} exited with ${String(status)}, not ${String(expected)}:\n${stderr}`)
    times.push(seconds)
  }
  return middle(times)
}

function middle(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN
}

/** One process, saved to again and again, each time with another mistake: from the save to the end of the report. */
async function watched(file: string, textOf: (round: number) => string): Promise<number> {
  writeFileSync(file, textOf(0))
  const child = spawn(process.execPath, [vla, 'check', file, '--watch'], { stdio: ['ignore', 'ignore', 'pipe'] })
  let told = ''
  let wake = (): void => undefined
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    told += text
    wake()
  })
  const report = async (): Promise<string> => {
    while (!/^watching .*\n/m.test(told))
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    const whole = told
    told = ''
    return whole
  }
  const times: number[] = []
  try {
    await report()
    for (let round = 1; round <= runs; round++) {
      const started = performance.now()
      writeFileSync(file, textOf(round))
      const text = await report()
      times.push((performance.now() - started) / 1000)
      if (!text.includes('VLA201')) throw new Error(`vla check --watch told something else:\n${text}`)
    }
  } finally {
    child.kill('SIGINT')
    await once(child, 'exit')
  }
  return middle(times)
}

if (!existsSync(vla)) execFileSync('npm', ['run', 'build'], { cwd: root, stdio: 'inherit' })
const example = largestExample()
const folder = mkdtempSync(join(tmpdir(), 'vla-bench-'))
try {
  cpSync(dirname(example), folder, {
    recursive: true,
    filter: (source) => !skipped.test(source.split('/').at(-1) ?? ''),
  })
  const clean = join(folder, 'pipeline.ts')
  const broken = join(folder, 'broken.ts')
  const text = readFileSync(clean, 'utf8')
  const withBatch = (batch: number): string => text.replace(/globalBatch: [\d_]+/, `globalBatch: ${String(batch)}`)
  writeFileSync(broken, withBatch(13))
  const out = join(folder, 'build')
  const clear = (): void => {
    rmSync(out, { recursive: true, force: true })
  }
  const results = [
    { what: 'check, clean', limit: 0.5, seconds: median(['check', clean], 0) },
    { what: 'check, with findings', limit: 2.5, seconds: median(['check', broken], 4) },
    {
      what: 'save under --watch',
      limit: 1,
      seconds: await watched(join(folder, 'watched.ts'), (round) => withBatch(13 + 2 * round)),
    },
    { what: 'build', limit: 1.5, seconds: median(['build', clean, '--out', out], 0, clear) },
  ]
  console.log(`${example.slice(root.length)}, median of ${String(runs)} processes`)
  for (const { what, limit, seconds } of results) {
    console.log(
      `${what.padEnd(22)} ${seconds.toFixed(2)} s   (limit ${limit.toFixed(1)} s)${seconds > limit ? '   TOO SLOW' : ''}`,
    )
  }
  process.exitCode = results.some(({ limit, seconds }) => seconds > limit) ? 1 : 0
} finally {
  rmSync(folder, { recursive: true, force: true })
}
