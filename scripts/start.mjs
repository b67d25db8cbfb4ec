// `npm start`: the whole way once, on this machine: install, build, record, train, package, reload, roll out.
// Run again, it redoes only what changed.
import path from 'node:path'
import { compile, prepare, record, rollOut, seconds, trainAndPack } from './steps.mjs'

const example = 'examples/quickstart'
const data = `${example}/data/metaworld`
const project = 'build/quickstart'

prepare()
record('quickstart-record', data, ['--task', 'reach-v3=100', '--task', 'drawer-close-v3=20', '--processes', '2'])
compile(example, project)
const last = trainAndPack('quickstart', project)
const summary = rollOut('quickstart', project, 'none', 2)

const percent = (share) => `${(100 * share).toFixed(0)} %`
process.stdout.write(`
Done in ${seconds()} s. What lies where:
  demonstrations    ${data}
  declaration       ${example}/pipeline.ts
  project           ${project} (train.py is the recipe)
  checkpoints       ${path.dirname(last)}
  packages          ${project}/packages/hf, ${project}/packages/lerobot
  rollouts          ${project}/evaluation
`)
for (const [task, { successes, episodes, low, high }] of Object.entries(summary)) {
  process.stdout.write(
    `${task}: ${successes} of ${episodes} unseen seeds solved (95 % interval ${percent(low)} to ${percent(high)})\n`,
  )
}
