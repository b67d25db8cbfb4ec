/** pyproject.toml, .gitattributes and README.md of a project. */
import { isKnown, type Pipeline } from '../plan/plan.ts'
import { valueAt } from '../plan/notes.ts'
import {
  dataPhrase,
  grouped,
  hardwarePhrase,
  modelPhrase,
  parallelPhrase,
  runFolder,
  writtenBy,
  type Project,
} from './project.ts'
import { float } from './python/literal.ts'
import { requirementsFor, requirementText } from './requirements.ts'
import { oneLine } from './text.ts'
import { tomlString, tomlStrings } from './toml.ts'

/** Direct requirements, and how this project's Python is checked. */
export function pyproject(project: Project, scripts: readonly string[]): string {
  const { pipeline, context } = project
  const requirements = requirementsFor(pipeline, context.templates.requirements).map(requirementText)
  return `# ${writtenBy(project)}
[project]
name = ${tomlString(pipeline.name)}
version = "0"
description = ${tomlString(`${modelPhrase(pipeline)} on ${dataPhrase(pipeline)}`)}
requires-python = "==3.12.*"
dependencies = ${tomlStrings(requirements)}  # requirements.lock has every package with its exact version

[tool.setuptools]
py-modules = []  # scripts that are run from this folder, not a package to install

[tool.ruff]
line-length = 120
target-version = "py312"

[tool.ruff.lint]
select = ["E", "F", "W", "I", "ANN"]
ignore = ["ANN401", "E501"]

[tool.ruff.lint.isort]
known-first-party = ["hooks", "model", "preflight", "train", "vla_runtime"]

[tool.pyright]
include = ${tomlStrings(scripts)}
pythonVersion = "3.12"
typeCheckingMode = "standard"
reportMissingParameterType = "error"
reportMissingImports = "error"
`
}

export function gitattributes(): string {
  return `* text=auto eol=lf
* linguist-generated
hooks.py -linguist-generated
`
}

/** Text inside a sentence or table cell of Markdown: one line, nothing in it is markup. */
function markdown(text: string): string {
  return oneLine(text)
    .replace(/[\\`*[<|~&$]/g, '\\$&')
    .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_')
    .replace(/^([#+=>-]|\d+(?=[.)]))/, '\\$1')
}

/** Code in Markdown, with a fence that the text does not contain. */
function markdownCode(text: string): string {
  const line = oneLine(text).replaceAll('|', '\\|')
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map((run) => run[0].length))
  const fence = '`'.repeat(longest + 1)
  const pad = longest > 0 || line === '' ? ' ' : ''
  return fence + pad + line + pad + fence
}

export function readme(project: Project, files: ReadonlySet<string>): string {
  const { pipeline } = project
  const has = (file: string): boolean => files.has(file)
  const commands: [command: string, what: string][] = [
    ['vla env', 'makes or checks the Python environment from requirements.lock'],
    ...(has('launch/local.sh')
      ? ([['launch/local.sh', `trains here; started again, it resumes from ${runFolder(project)}`]] as [
          string,
          string,
        ][])
      : []),
    ...(has('launch/slurm.sbatch')
      ? ([
          [
            'sbatch launch/slurm.sbatch',
            'trains on the cluster; goes back into the queue when it is preempted or out of time',
          ],
        ] as [string, string][])
      : []),
    ...(has('pack.py')
      ? ([
          [
            'python pack.py',
            `writes ${pipeline.exports.map(({ kind }) => `packages/${kind}`).join(' and ')} from the newest checkpoint and verifies them`,
          ],
        ] as [string, string][])
      : []),
    ...(has('evaluate.py')
      ? ([['python evaluate.py', 'rolls the package out; `--ablate image` shows whether the policy sees']] as [
          string,
          string,
        ][])
      : []),
  ]
  const { training } = pipeline
  return `# ${markdown(pipeline.name)}

${markdown(capital(modelPhrase(pipeline)))} on ${markdown(dataPhrase(pipeline))}: ${grouped(training.updates)} updates of ${grouped(training.globalBatch)} samples on ${markdown(hardwarePhrase(pipeline))}, ${parallelPhrase(pipeline)}.

Written by \`vla build\` ${project.context.version} from ${markdownCode(project.context.source)} (plan ${project.plan.hash.slice(0, 8)}). Change it and build again; hooks.py is yours.

| command | what it does |
|---|---|
${commands.map(([command, what]) => `| ${markdownCode(command)} | ${what} |`).join('\n')}

Read train.py from top to bottom: it is the whole recipe. model.py is the architecture, preflight.py the checks on the target machine, vla_runtime/ what they import. The project needs nothing else of ours.

## Modules

| module | trains | learning rate | weight decay | computes in | parameters |
|---|---|---|---|---|---|
${pipeline.modules.map((module) => `| ${markdown(module.name)} | ${trains(module, pipeline)} | ${isKnown(module.lr) && module.lr !== null ? float(module.lr).text : ''} | ${module.lr === null ? '' : module.weightDecay} | ${module.dtype} | ${isKnown(module.count) ? grouped(module.count) : 'unknown'}${isKnown(module.deadCount) && module.deadCount > 0 ? ` (${grouped(module.deadCount)} dead)` : ''} |`).join('\n')}

## What was decided, and why

What pipeline.ts says is not repeated here. What was read from data and weights, and the sizes that follow from it, are in plan.json.

| what | value | where from | why |
|---|---|---|---|
${decisions(project)}
${suppressed(pipeline)}
## Randomness

Seed ${training.seed}. Initial weights depend on it and on the parameter's name; which sample comes when, and a sample's noise and augmentation, on it, the update and the position in the global batch. The number of processes and micro-batches changes none of them.

## In other trainers' words

| here | elsewhere |
|---|---|
| ${parallelPhrase(pipeline)} | ${elsewhere(pipeline)} |
| update, global batch, micro batch | optimizer step, batch over all processes and accumulation, batch of one forward on one process |
| recompute | activation checkpointing |
`
}

function elsewhere({ parallel }: Pipeline): string {
  if (parallel.kind === 'ddp') return 'DistributedDataParallel, NO\\_SHARD'
  return parallel.shard === 'full' ? 'FULL\\_SHARD, ZeRO-3' : 'SHARD\\_GRAD\\_OP, ZeRO-2'
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function trains(module: Pipeline['modules'][number], pipeline: Pipeline): string {
  const what = module.adapt === null ? '' : `LoRA of rank ${module.adapt.rank}: `
  const phases = module.freeze.map(({ from, trains: who }) => {
    const name = who === 'all' ? 'all' : who === 'none' ? 'nothing' : `last ${who.lastLayers} live blocks`
    return module.freeze.length === 1 ? name : `${name} from ${grouped(from)}`
  })
  return `${what}${phases.join(', ')}${module.freeze.length === 1 ? '' : ` of ${grouped(pipeline.training.updates)}`}`
}

/** A decision: not what the user said, not what was read or counted, and not that something optional is absent. */
function decisions({ plan }: Project): string {
  const facts = /\/(?:count|deadCount|adapterCount|memoryBytes)$|^\/(?:modules|datasets)\/\d+$/
  const absent = (decided: unknown): boolean => decided === null || (Array.isArray(decided) && decided.length === 0)
  const rows = Object.entries(plan.notes)
    .filter(([pointer, note]) => note.from !== 'declared' && note.from !== 'lock' && !facts.test(pointer))
    .filter(([pointer, note]) => note.from !== 'default' || !absent(valueAt(plan.pipeline, pointer)))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([pointer, note]) => {
      const decided = valueAt(plan.pipeline, pointer)
      return `| ${markdownCode(readable(pointer, plan.pipeline))} | ${shown(decided)} | ${note.from} | ${markdown(note.reason)} |`
    })
  return rows.length === 0 ? '| | | | nothing |' : rows.join('\n')
}

/** `/modules/0/lr` -> `modules.vision.lr` */
function readable(pointer: string, pipeline: Pipeline): string {
  const module = /^\/(modules|datasets)\/(\d+)(.*)$/.exec(pointer)
  const named = module === null ? undefined : pipeline[module[1] as 'modules' | 'datasets'][Number(module[2])]?.name
  const path = named === undefined || module === null ? pointer : `/${module[1] ?? ''}/${named}${module[3] ?? ''}`
  return path.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
}

/** A value in a table cell; long ones are in plan.json. */
function shown(decided: unknown): string {
  if (decided === undefined) return ''
  if (!isKnown(decided)) return 'unknown'
  const plain = typeof decided === 'string' && oneLine(decided) === decided
  const text = plain ? decided : JSON.stringify(decided)
  return text.length > 60 ? 'see plan.json' : markdownCode(text)
}

function suppressed({ suppressed: rules }: Pipeline): string {
  if (rules.length === 0) return ''
  return `
## Rules that are switched off

| rule | reason |
|---|---|
${rules.map(({ rule, reason }) => `| ${markdown(rule)} | ${markdown(reason)} |`).join('\n')}
`
}
