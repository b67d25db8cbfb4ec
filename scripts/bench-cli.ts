/**
 * Times whole processes of the built command line on the largest example: `npm run build && npm run bench:cli [-- RUNS]`.
 *
 * Prints the median of 10 for check without findings, check with findings, and build, each beside its limit; exits with 1 above one.
 */
import { execFileSync, spawnSync } from 'node:child_process'
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
  return times.sort((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN
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
  writeFileSync(broken, text.replace(/globalBatch: [\d_]+/, 'globalBatch: 13'))
  const out = join(folder, 'build')
  const clear = (): void => {
    rmSync(out, { recursive: true, force: true })
  }
  const results = [
    { what: 'check, clean', limit: 0.5, seconds: median(['check', clean], 0) },
    { what: 'check, with findings', limit: 2.5, seconds: median(['check', broken], 4) },
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
