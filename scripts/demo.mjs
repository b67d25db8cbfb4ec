// `npm run demo:long` and `npm run demo:act`: policies that see. Records, trains and rolls out an example, with the ablations that show
// what its success rests on.
import { compile, fail, prepare, record, rollOut, seconds, table, trainAndPack } from './steps.mjs'

const demos = {
  'two-tasks': { data: 'two-tasks', tasks: ['reach-v3=600', 'drawer-close-v3=60'] },
  'metaworld-reach': { data: 'reach', tasks: ['reach-v3=600'] },
}

const [name] = process.argv.slice(2)
if (!Object.hasOwn(demos, name)) fail(`node scripts/demo.mjs takes one of ${Object.keys(demos).join(', ')}.`)
const { data, tasks } = demos[name]
const example = `examples/${name}`
const project = `build/${name}`

prepare()
record(`${name}-record`, `${example}/data/${data}`, [...tasks.flatMap((task) => ['--task', task]), '--processes', '2'])
compile(example, project)
trainAndPack(name, project)
const columns = { images: 'none', 'frozen image': 'image', 'zero actions': 'action' }
const results = Object.entries(columns).map(([column, ablate]) => [column, rollOut(name, project, ablate, 2)])

process.stdout.write(`\nDone in ${(seconds() / 60).toFixed(1)} minutes.\n\n${table(results)}`)
