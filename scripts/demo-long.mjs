// `npm run demo:long`: a policy that sees. Records, trains and rolls out two tasks, with the ablations that show what success rests on.
import { compile, prepare, record, rollOut, seconds, trainAndPack } from './steps.mjs'

const example = 'examples/two-tasks'
const project = 'build/two-tasks'

prepare()
record('two-tasks-record', `${example}/data/two-tasks`, [
  '--task',
  'reach-v3=300',
  '--task',
  'drawer-close-v3=60',
  '--processes',
  '2',
])
compile(example, project)
trainAndPack('two-tasks', project)
const columns = { images: 'none', 'frozen image': 'image', 'zero actions': 'action' }
const results = Object.entries(columns).map(([column, ablate]) => [column, rollOut('two-tasks', project, ablate, 2)])

process.stdout.write(
  `\nDone in ${(seconds() / 60).toFixed(1)} minutes.\n\n| task | ${results.map(([column]) => column).join(' | ')} |\n|---|${'---|'.repeat(results.length)}\n`,
)
for (const task of Object.keys(results[0][1])) {
  const cells = results.map(([, summary]) => {
    const { successes, episodes, mean_final_distance_m: distance } = summary[task]
    return `${successes} / ${episodes}, ${(100 * distance).toFixed(1)} cm`
  })
  process.stdout.write(`| ${task} | ${cells.join(' | ')} |\n`)
}
