/**
 * Times whole processes of the built command line on the largest example: `npm run build && npm run bench:cli [-- RUNS]`.
 *
 * Prints the median of 10 for check without findings, check with findings, build, a save under --watch until its findings are told, all
 * rules of one check, and what thirty modules add to tsc, each beside its limit; exits with 1 above one.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pipelineOf } from '../test/types/modules.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const vla = join(root, 'dist/cli/bin.js')
const tsc = join(root, 'node_modules/typescript/bin/tsc')
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

/** All rules over the plan of a clean pipeline, the first time in a process: nothing is compiled yet. */
function rules(file: string): number {
  const code = `
    const { performance } = await import('node:perf_hooks')
    const { pathToFileURL } = await import('node:url')
    const load = (name) => import(pathToFileURL(${JSON.stringify(join(root, 'sdk'))} + '/' + name).href)
    const [{ parseDeclaration }, { resolve }, { runRules }] =
      await Promise.all(['declare/parse.ts', 'resolve/resolve.ts', 'rules/run.ts'].map(load))
    const { default: declaration } = await import(pathToFileURL(${JSON.stringify(file)}).href)
    const parsed = parseDeclaration(declaration)
    const { plan } = resolve(parsed.declaration, undefined, parsed)
    const started = performance.now()
    runRules(plan)
    console.log((performance.now() - started) / 1000)`
  return middle(
    Array.from({ length: runs }, () =>
      Number(
        execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], {
          cwd: root,
          encoding: 'utf8',
        }),
      ),
    ),
  )
}

/** What thirty modules, each with every option, add to a `tsc` of a pipeline, as its own clock tells it. */
function thirtyModules(at: string): number {
  const seconds = (count: number): number => {
    // Without the paths of the repository it sees the built types, as a user's project does.
    const compilerOptions = { paths: {} }
    const options = { extends: join(root, 'tsconfig.json'), compilerOptions, files: ['pipeline.ts'], include: [] }
    writeFileSync(join(at, 'tsconfig.json'), JSON.stringify(options))
    writeFileSync(join(at, 'pipeline.ts'), pipelineOf(count))
    const said = execFileSync(process.execPath, [tsc, '-p', at, '--extendedDiagnostics'], { encoding: 'utf8' })
    return Number(/^Total time: +([\d.]+)s$/m.exec(said)?.[1])
  }
  return middle(Array.from({ length: runs }, () => seconds(30) - seconds(0)))
}

if (!existsSync(vla)) execFileSync('npm', ['run', 'build'], { cwd: root, stdio: 'inherit' })
const example = largestExample()
const folder = mkdtempSync(join(tmpdir(), 'vla-bench-'))
mkdirSync(join(root, 'build'), { recursive: true })
const types = mkdtempSync(join(root, 'build', 'bench-')) // below the repository, whose packages the types need
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
    { what: 'all rules', limit: 0.05, seconds: rules(example) },
    { what: '30 modules in tsc', limit: 0.3, seconds: thirtyModules(types) },
    { what: 'build', limit: 1.5, seconds: median(['build', clean, '--out', out], 0, clear) },
  ]
  console.log(`${example.slice(root.length)}, median of ${String(runs)} processes`)
  for (const { what, limit, seconds } of results) {
    console.log(
      `${what.padEnd(22)} ${seconds.toFixed(2)} s   (limit ${limit.toFixed(2)} s)${seconds > limit ? '   TOO SLOW' : ''}`,
    )
  }
  process.exitCode = results.some(({ limit, seconds }) => seconds > limit) ? 1 : 0
} finally {
  rmSync(folder, { recursive: true, force: true })
  rmSync(types, { recursive: true, force: true })
}
