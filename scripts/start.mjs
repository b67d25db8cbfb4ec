// `npm start`: the whole way once, on this machine: install, build, record demonstrations, train, package, reload, roll out.
// Run again, it redoes only what changed. Plain Node without dependencies, because nothing is installed when it begins.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const stamps = path.join(root, 'build', '.stamps')
const example = 'examples/quickstart'
const project = 'build/quickstart'
const python = path.join(root, '.venv', 'bin', 'python')
const began = Date.now()

/** Runs a program in the foreground; ends this one with the same exit code where it fails. */
function run(command, args, options = {}) {
  const done = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options, env: { ...process.env, HF_HUB_OFFLINE: '1', ...options.env } })
  if (done.error) fail(`${command} could not be started: ${done.error.message}`)
  if (done.status !== 0) process.exit(done.status ?? 2)
}

const vla = (...args) => run(process.execPath, ['dist/cli/bin.js', ...args])

function fail(message) {
  process.stderr.write(`error: ${message}\n`)
  process.exit(2)
}

/** Does a step unless it was done with the same inputs and what it made is still there. */
function step(title, name, inputs, outputs, work) {
  const hash = createHash('sha256')
  for (const input of inputs) hash.update(hashOf(path.join(root, input)))
  const digest = hash.digest('hex')
  const stamp = path.join(stamps, name)
  const seconds = () => `${((Date.now() - began) / 1000).toFixed(0)} s`
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest && outputs.every((output) => existsSync(path.join(root, output)))) {
    process.stderr.write(`\n=== ${title}: as before\n`)
    return
  }
  process.stderr.write(`\n=== ${title} (at ${seconds()})\n`)
  work()
  mkdirSync(stamps, { recursive: true })
  writeFileSync(stamp, digest)
}

function hashOf(file) {
  const hash = createHash('sha256')
  if (!existsSync(file)) return 'absent'
  if (statSync(file).isFile()) return hash.update(readFileSync(file)).digest('hex')
  for (const entry of readdirSync(file).sort()) {
    if (entry === '__pycache__' || entry === 'node_modules' || entry === '.venv') continue
    hash.update(entry).update(hashOf(path.join(file, entry)))
  }
  return hash.digest('hex')
}

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) fail(`Node ${process.versions.node} is too old; vla needs 20.19 or later.`)

step('install the packages of package-lock.json', 'npm', ['package-lock.json'], ['node_modules/tsx'], () =>
  run('npm', ['ci', '--no-audit', '--no-fund']),
)
step('build the command line', 'dist', ['sdk', 'tsconfig.build.json', 'tsconfig.json'], ['dist/cli/bin.js'], () =>
  run('npm', ['run', '--silent', 'build']),
)
step('make the Python environment', 'python', ['templates/runtime/requirements.lock'], ['.venv/bin/python'], () =>
  vla('env', example, '--dir', '.'),
)

process.stderr.write('\n=== draw one frame of the simulator\n')
const recorder = path.join(root, 'build', 'recorder') // record.py and simulation.py lie side by side, as `vla init` puts them
mkdirSync(recorder, { recursive: true })
for (const file of [`${example}/record.py`, 'templates/runtime/vla_runtime/simulation.py']) {
  writeFileSync(path.join(recorder, path.basename(file)), readFileSync(path.join(root, file)))
}
run(python, [path.join(recorder, 'simulation.py')])

step(
  'record demonstrations of the scripted experts',
  'record',
  [`${example}/record.py`, 'templates/runtime/vla_runtime/simulation.py'],
  [`${example}/data/metaworld/meta/recording.json`],
  () =>
    run(python, [
      path.join(recorder, 'record.py'),
      ...['--task', 'reach-v3=100', '--task', 'drawer-close-v3=20', '--processes', '2', '--overwrite'],
      ...['--out', `${example}/data/metaworld`],
    ]),
)

process.stderr.write('\n=== check the declaration and write the project\n')
vla('lock', `${example}/pipeline.ts`)
vla('check', `${example}/pipeline.ts`)
vla('build', `${example}/pipeline.ts`, '--out', project)

const trained = [`${project}/plan.json`, `${project}/train.py`, `${project}/model.py`, `${project}/vla_runtime`]
const updates = JSON.parse(readFileSync(path.join(root, project, 'plan.json'), 'utf8')).pipeline.training.updates
const last = `${project}/runs/quickstart/checkpoints/step-${String(updates).padStart(8, '0')}`
step(`train ${updates} updates with two processes`, 'train', trained, [`${last}/COMPLETE`], () => vla('run', project))
step('package as hf and lerobot, reload both, compare actions', 'pack', [...trained, `${last}/COMPLETE`], [`${project}/packages/lerobot/verification.json`], () =>
  vla('pack', project),
)
step('roll the policy out', 'evaluate', [`${project}/evaluate.py`, `${project}/packages/lerobot/verification.json`], [`${project}/evaluation/results.json`], () =>
  run(python, ['evaluate.py'], { cwd: path.join(root, project), env: { OMP_NUM_THREADS: '1' } }),
)

const { summary } = JSON.parse(readFileSync(path.join(root, project, 'evaluation/results.json'), 'utf8'))
process.stdout.write(`
${((Date.now() - began) / 1000).toFixed(0)} s. What lies where:
  demonstrations    ${example}/data/metaworld
  declaration       ${example}/pipeline.ts
  project           ${project}   (train.py is the recipe)
  checkpoints       ${path.dirname(last)}
  packages          ${project}/packages/hf, ${project}/packages/lerobot
  rollouts          ${project}/evaluation
${Object.entries(summary)
  .map(([task, { successes, episodes, low, high }]) => `${task}: ${successes} of ${episodes} seeds solved (95 % interval ${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)} %)`)
  .join('\n')}
`)
