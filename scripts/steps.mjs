// What `npm start` and `npm run demo:long` share: programs in the foreground, and steps that are done once for the same inputs.
// Plain Node without dependencies, because nothing is installed when `npm start` begins.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '..')
export const python = path.join(root, '.venv', 'bin', 'python')
const began = Date.now()

/** Seconds since this script began. */
export function seconds() {
  return Math.round((Date.now() - began) / 1000)
}

/** Says why it ends, and ends with 2: the job could not be done. */
export function fail(message) {
  process.stderr.write(`error: ${message}\n`)
  process.exit(2)
}

/** Runs a program in the foreground; where it fails, this one ends with the same exit code. */
export function run(command, args, options = {}) {
  const env = { ...process.env, HF_HUB_OFFLINE: '1', ...options.env }
  const done = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options, env })
  if (done.error) fail(`${command} could not be started: ${done.error.message}`)
  if (done.status !== 0) process.exit(done.status ?? 2)
}

/** Runs a command of this repository's own build. */
export function vla(...args) {
  run(process.execPath, ['dist/cli/bin.js', ...args])
}

/** A title before what follows it. */
export function title(text) {
  process.stderr.write(`\n=== ${text} (at ${seconds()} s)\n`)
}

/** Does a step, unless it was done with the same inputs and what it made is still there. Paths are below the repository. */
export function step(text, name, inputs, outputs, work) {
  const stamp = path.join(root, 'build', '.stamps', name)
  const digest = inputs.map((input) => hashOf(path.join(root, input))).join('\n')
  const before = existsSync(stamp) ? readFileSync(stamp, 'utf8') : undefined
  if (before === digest && outputs.every((output) => existsSync(path.join(root, output)))) {
    process.stderr.write(`\n=== ${text}: as before\n`)
    return
  }
  title(text)
  work()
  mkdirSync(path.dirname(stamp), { recursive: true })
  writeFileSync(stamp, digest)
}

function hashOf(file) {
  if (!existsSync(file)) return 'absent'
  const hash = createHash('sha256')
  if (statSync(file).isFile()) return hash.update(readFileSync(file)).digest('hex')
  for (const entry of readdirSync(file).sort()) {
    if (!['__pycache__', 'node_modules', '.venv'].includes(entry))
      hash.update(entry).update(hashOf(path.join(file, entry)))
  }
  return hash.digest('hex')
}

/** Installs, builds and makes the Python environment, as far as that is not done. */
export function prepare() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 19))
    fail(`Node ${process.versions.node} is too old; vla needs 20.19 or later.`)
  step('install the packages of package-lock.json', 'npm', ['package-lock.json'], ['node_modules/tsx'], () =>
    run('npm', ['ci', '--no-audit', '--no-fund']),
  )
  step(
    'build the command line',
    'dist',
    ['sdk', 'tsconfig.build.json', 'tsconfig.json', 'scripts/bundle.mjs'],
    ['dist/cli/bin.js'],
    () => run('npm', ['run', '--silent', 'build']),
  )
  step('make the Python environment', 'python', ['templates/runtime/requirements.lock'], ['.venv/bin/python'], () =>
    vla('env', 'examples/quickstart', '--dir', '.'),
  )
}

/** Draws a frame, then records unless the same recorder has written `out` before. */
export function record(name, out, args) {
  const recorder = path.join(root, 'build', 'recorder') // record.py and simulation.py side by side, as `vla init` puts them
  const sources = ['examples/quickstart/record.py', 'templates/runtime/vla_runtime/simulation.py']
  mkdirSync(recorder, { recursive: true })
  for (const file of sources)
    writeFileSync(path.join(recorder, path.basename(file)), readFileSync(path.join(root, file)))
  title('draw one frame of the simulator')
  run(python, [path.join(recorder, 'simulation.py')])
  step('record demonstrations of the scripted experts', name, sources, [`${out}/meta/recording.json`], () =>
    run(python, [path.join(recorder, 'record.py'), ...args, '--overwrite', '--out', out]),
  )
}

/** Locks, checks and builds an example. */
export function compile(example, project) {
  title('check the declaration and write the project')
  vla('lock', `${example}/pipeline.ts`)
  vla('check', `${example}/pipeline.ts`)
  vla('build', `${example}/pipeline.ts`, '--out', project)
}

/** Trains and packs a built project. Returns the folder of its last checkpoint. */
export function trainAndPack(name, project) {
  const { pipeline } = JSON.parse(readFileSync(path.join(root, project, 'plan.json'), 'utf8'))
  const { updates } = pipeline.training
  const last = `${project}/runs/${pipeline.name}/checkpoints/step-${String(updates).padStart(8, '0')}`
  const sources = [`${project}/plan.json`, `${project}/train.py`, `${project}/model.py`, `${project}/vla_runtime`]
  step(`train ${updates} updates with two processes`, `${name}-train`, sources, [`${last}/COMPLETE`], () =>
    vla('run', project),
  )
  step(
    'package, reload in a fresh process, compare actions',
    `${name}-pack`,
    [...sources, `${last}/COMPLETE`],
    [`${project}/packages/lerobot/verification.json`],
    () => vla('pack', project),
  )
  return last
}

/** Rolls out with some ablation (`none`, `image`, `instruction`, `action`) and returns the summary by task. */
export function rollOut(name, project, ablate, processes) {
  const results = `${project}/evaluation/${ablate === 'none' ? 'results' : `results-${ablate}-ablated`}.json`
  const inputs = [`${project}/evaluate.py`, `${project}/vla_runtime`, `${project}/packages/lerobot/verification.json`]
  const what = ablate === 'none' ? 'roll the policy out' : `roll the policy out with ${ablate} ablated`
  step(what, `${name}-rollout-${ablate}`, inputs, [results], () =>
    run(python, ['evaluate.py', '--ablate', ablate, '--processes', String(processes)], {
      cwd: path.join(root, project),
      env: { OMP_NUM_THREADS: '1' },
    }),
  )
  return JSON.parse(readFileSync(path.join(root, results), 'utf8')).summary
}

/** Summaries of rollouts as a table: a row for each task, a column for each [name, summary by task]. */
export function table(columns) {
  const heads = columns.map(([column]) => column).join(' | ')
  const rows = Object.keys(columns[0][1]).map((task) => {
    const cells = columns.map(([, summary]) => {
      const { successes, episodes, low, high, mean_final_distance_m: distance } = summary[task]
      const [from, to] = [low, high].map((share) => Math.round(100 * share))
      return `${successes} / ${episodes} (${from} to ${to} %), ${(100 * distance).toFixed(1)} cm`
    })
    return `| ${task} | ${cells.join(' | ')} |\n`
  })
  return `| task | ${heads} |\n|---|${'---|'.repeat(columns.length)}\n${rows.join('')}`
}
