/** `vla inspect`: what a LeRobot policy is made of, and a partition of it to paste. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import * as z from 'zod'
import type { Code } from '../importer/write.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { hostOf } from './io.ts'
import type { Io } from './io.ts'
import { packageFolder } from './package.ts'
import { paint, plural } from './style.ts'

interface Options {
  readonly weights?: string
  readonly config?: string
  readonly plugin?: string
  readonly cameras?: readonly string[]
  readonly imageSize?: readonly [number, number]
  readonly stateDim?: number
  readonly actionDim?: number
  readonly tokenizer?: string
  readonly depth?: number
  readonly python?: string
}

const count = z.number().int().nonnegative()

/** What the script writes about a policy. */
export const inspection = z.strictObject({
  type: z.string(),
  class: z.string(),
  cameras: z.array(z.string()),
  state_dim: count,
  action_dim: count,
  chunk: count.describe('actions per prediction'),
  parameters: count,
  bytes: count,
  frozen: z.array(z.string()).describe('parameters that LeRobot freezes'),
  tree: z.array(
    z.strictObject({ name: z.string(), class: z.string(), parameters: count, bytes: count, trainable: count }),
  ),
  traced: z
    .boolean()
    .describe('whether a training step could be run, on tensors without values where that is possible'),
  because: z.string().nullable().describe('why not'),
  blocks: z.array(
    z.strictObject({ pattern: z.string(), kind: z.string(), blocks: count, called: count, parameters: count }),
  ),
  called_from_outside: z
    .array(z.string())
    .describe('modules that are called while the module around them is not: sharding units of their own'),
  uncalled: z.array(z.string()).describe('modules whose forward never ran: they are never sharding units'),
  dead: z.array(z.string()).describe('parameters that train and get no gradient'),
  batch_norm: z.array(z.string()),
  loss: z
    .enum(['own', 'validCount'])
    .describe('own: by term and element; validCount: the mean, weighted by valid actions'),
  normalization: z.record(z.string(), z.string()),
  recipe: z.strictObject({
    optimizer: z.looseObject({ type: z.string() }).nullable(),
    schedule: z.looseObject({ type: z.string() }).nullable(),
  }),
  modules: z
    .record(
      z.string(),
      z.strictObject({
        parameters: z.array(z.string()),
        blocks: z.array(z.string()),
        dead: z.array(z.string()),
        count,
        bytes: count,
        trains: z.boolean(),
      }),
    )
    .describe('the proposed partition'),
})
type Inspection = z.output<typeof inspection>

const report = z.discriminatedUnion('ok', [
  inspection.extend({ ok: z.literal(true) }),
  z.strictObject({ ok: z.literal(false), message: z.string() }),
])

export function inspectCommand({ add }: Registrar): void {
  add(
    new Command('inspect')
      .description("show a LeRobot policy's modules and what of them is really called, and propose a partition")
      .argument('<type>', "LeRobot's name of the policy, or the one that a plugin registers")
      .option('--plugin <package>', 'Python package that registers the type')
      .option('--weights <dir>', 'policy directory whose config.json says the configuration')
      .option('--config <json>', "further fields of LeRobot's configuration: JSON, or a file with it")
      .option('--cameras <names>', 'cameras, with commas (default: those of --weights, else front)', names)
      .option('--image-size <size>', 'pixels of the images, 224 or 240x320', size)
      .option('--state-dim <n>', "width of the robot's state; 0: none", wholeNumber)
      .option('--action-dim <n>', 'width of an action', wholeNumber)
      .option('--tokenizer <dir>', "directory of the tokenizer, where the policy's own is not at hand")
      .option('--depth <n>', 'levels of the tree that are printed', wholeNumber)
      .option(
        '--python <path>',
        'interpreter (default: the nearest .venv here or above, else the activated environment)',
      )
      .addHelpText('after', '\nNothing is downloaded and no weights are read; most policies are built without memory.'),
    async (args, options, io) => inspectPolicy(args[0] ?? '', options, io),
  )
}

function names(value: string): readonly string[] {
  const cameras = value.split(',').map((name) => name.trim())
  if (cameras.some((name) => !/^[A-Za-z_]\w*$/.test(name)))
    throw new InvalidArgumentError('Names with commas are meant.')
  return cameras
}

function size(value: string): readonly [number, number] {
  const match = /^(\d+)(?:x(\d+))?$/.exec(value)
  const height = Number(match?.[1])
  const width = Number(match?.[2] ?? match?.[1])
  if (match === null || height < 1 || width < 1) throw new InvalidArgumentError('224 or 240x320 is meant.')
  return [height, width]
}

function wholeNumber(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError('Give a whole number.')
  return Number(value)
}

async function inspectPolicy(type: string, options: Options, io: Io): Promise<Outcome> {
  const [{ environmentPython }, { runChild }, { CannotDo }, { registeredTypes }, { suggest }] = await Promise.all([
    import('../python/environment.ts'),
    import('../python/child.ts'),
    import('../python/errors.ts'),
    import('../catalog/lerobot/registered.ts'),
    import('../declare/suggest.ts'),
  ])
  if (options.plugin === undefined && !(registeredTypes as readonly string[]).includes(type)) {
    const meant = suggest(type, registeredTypes)
    throw new CannotDo(
      `LeRobot 0.6.1 has no policy '${type}'.`,
      `${meant === undefined ? `It has ${registeredTypes.join(', ')}.` : `Did you mean '${meant}'?`}\nA plugin's policy needs its package: --plugin lerobot_policy_mine.`,
    )
  }
  const config = await readConfig(options.config, io)
  const request = {
    type,
    plugin: options.plugin,
    weights: options.weights === undefined ? undefined : resolve(io.cwd, options.weights),
    config,
    cameras: options.cameras,
    image_size: options.imageSize,
    state_dim: options.stateDim,
    action_dim: options.actionDim,
    tokenizer: options.tokenizer === undefined ? undefined : resolve(io.cwd, options.tokenizer),
  }
  const host = hostOf(io)
  const python = await environmentPython(host, io.cwd, options.python)
  const folder = await mkdtemp(join(tmpdir(), 'vla-inspect-'))
  try {
    const [asked, told] = [join(folder, 'request.json'), join(folder, 'report.json')]
    await writeFile(asked, JSON.stringify(request))
    const paths = ['inspect', 'runtime'].map((name) => join(packageFolder, 'templates', name))
    // The user's folder comes last on the path: a plugin may lie in it.
    const path = [...paths, ...(io.env['PYTHONPATH'] === undefined ? [] : [io.env['PYTHONPATH']]), io.cwd]
    const result = await runChild(python, ['-m', 'vla_inspect', asked, told], {
      host,
      cwd: io.cwd,
      env: { PYTHONPATH: path.join(delimiter), PYTHONDONTWRITEBYTECODE: '1', HF_HUB_OFFLINE: '1' },
      output: 'collect',
    })
    if (!existsSync(told)) {
      const said = result.startError ?? result.stderr.trimEnd().split('\n').slice(-12).join('\n')
      throw new CannotDo(
        `${type} could not be looked at:\n${said}`,
        'Make the environment again with vla env, or report this.',
      )
    }
    const read = report.parse(JSON.parse(await readFile(told, 'utf8')))
    if (!read.ok) throw new CannotDo(read.message, '')
    const { ok: _, ...found } = read
    const snippet = await declarationText(found, options, config)
    return {
      exit: EXIT.ok,
      data: { inspection: found, snippet },
      text: [...treeLines(found, options.depth ?? 4, io), '', ...findings(found, io), '', snippet].join('\n'),
      summary: `${plural(found.parameters, 'parameter')}, ${bytes(found.bytes)}`,
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** JSON on the command line, or the file that holds it. */
async function readConfig(given: string | undefined, io: Io): Promise<Readonly<Record<string, Code>>> {
  if (given === undefined) return {}
  const { CannotDo } = await import('../python/errors.ts')
  const inline = given.trimStart().startsWith('{')
  const file = resolve(io.cwd, given)
  if (!inline && !existsSync(file))
    throw new CannotDo(`--config: ${given} is not there.`, "Give JSON, '{...}', or a file with it.")
  try {
    const content: unknown = JSON.parse(inline ? given : await readFile(file, 'utf8'))
    return z.record(z.string(), z.custom<Code>()).parse(content)
  } catch (error) {
    throw new CannotDo(`--config cannot be read: ${(error as Error).message}`, "Give JSON, '{...}', or a file with it.")
  }
}

function treeLines({ tree, frozen, parameters }: Inspection, depth: number, io: Io): string[] {
  const rows = tree
    .filter(({ name }) => name !== '' && name.split('.').length <= depth)
    .map(({ name, class: kind, parameters: own, bytes: size, trainable }) => {
      const level = name.split('.').length - 1
      return {
        name: `${'  '.repeat(level)}${name.split('.').at(-1) ?? name}`,
        kind,
        own: own.toLocaleString('en-US'),
        size: bytes(size),
        state: trainable === 0 ? 'frozen' : trainable < own ? 'in part frozen' : '',
      }
    })
  const wide = (key: 'name' | 'kind' | 'own' | 'size'): number => Math.max(...rows.map((row) => row[key].length), 0)
  const widths = { name: wide('name'), kind: wide('kind'), own: wide('own'), size: wide('size') }
  const head = `${paint(io, 'bold', 'modules')}  ${plural(parameters, 'parameter')}, ${plural(frozen.length, 'frozen tensor')}`
  return [
    head,
    ...rows.map(({ name, kind, own, size, state }) =>
      `${name.padEnd(widths.name)}  ${kind.padEnd(widths.kind)}  ${own.padStart(widths.own)}  ${size.padStart(widths.size)}  ${state}`.trimEnd(),
    ),
  ]
}

/** What a training step showed. */
function findings(found: Inspection, io: Io): string[] {
  const { traced, because, blocks, called_from_outside: outside, uncalled, dead, batch_norm: norms, loss } = found
  if (!traced)
    return [
      `${paint(io, 'yellow', 'not run')}  No training step could be run: ${because ?? ''}`,
      '         Which blocks are called is not known, so that none are proposed.',
    ]
  const lines = blocks.map(({ pattern, kind, blocks: all, called, parameters }) => {
    const how = called === all ? 'called' : called === 0 ? 'never called' : `${String(called)} of ${String(all)} called`
    return `  ${pattern}  ${String(all)} x ${kind}, ${plural(parameters, 'parameter')}: ${how}`
  })
  const some = (list: readonly string[]): string =>
    list.length > 6 ? `${list.slice(0, 6).join(', ')} and ${String(list.length - 6)} more` : list.join(', ')
  return [
    `${paint(io, 'bold', 'blocks')}  what is called through forward can be sharded and recomputed`,
    ...(lines.length === 0 ? ['  none'] : lines),
    ...(outside.length === 0
      ? []
      : [`${paint(io, 'bold', 'called from outside of the module around it')}  ${some(outside)}`]),
    ...(uncalled.length === 0 ? [] : [`${paint(io, 'bold', 'never called')}  ${some(uncalled)}`]),
    ...(dead.length === 0 ? [] : [`${paint(io, 'bold', 'without gradient')}  ${some(dead)}`]),
    ...(norms.length === 0
      ? []
      : [`${paint(io, 'yellow', 'batch norm')}  ${some(norms)}: batchNorm: 'frozen', or a configuration without`]),
    ...(loss === 'own' ? [] : ['loss  its mean, weighted by the number of valid actions']),
  ]
}

/** What to paste: the model, and what else of the pipeline follows from LeRobot's configuration of the policy. */
async function declarationText(
  found: Inspection,
  options: Options,
  config: Readonly<Record<string, Code>>,
): Promise<string> {
  const [{ Call, expression }, { findPolicy }, { remoteCodeOf }] = await Promise.all([
    import('../importer/write.ts'),
    import('../catalog/lerobot/index.ts'),
    import('../catalog/lerobot/registered.ts'),
  ])
  const modules = Object.entries(found.modules).map(([name, { parameters, blocks, dead }]): [string, Code] => [
    name,
    {
      parameters,
      blocks: blocks.length === 0 ? undefined : blocks,
      dead: dead.length === 0 ? undefined : dead,
    },
  ])
  // lerobot-train puts ImageNet's statistics in the place of the dataset's.
  const images: Readonly<Record<string, string>> = { MEAN_STD: 'imagenet', IDENTITY: 'identity' }
  const model = new Call('lerobotPolicy', {
    type: found.type,
    plugin: options.plugin,
    weights: options.weights,
    cameras: found.cameras,
    state: found.state_dim === 0 ? false : undefined,
    chunk: found.chunk,
    batchNorm: found.batch_norm.length === 0 ? undefined : 'frozen',
    images: images[found.normalization['VISUAL'] ?? ''],
    config: Object.keys(config).length === 0 ? undefined : config,
    modules: Object.fromEntries(modules),
  })
  const modes: Readonly<Record<string, string>> = {
    MEAN_STD: 'meanStd',
    MIN_MAX: 'minMax',
    QUANTILES: 'quantiles',
    IDENTITY: 'identity',
  }
  const normalize = {
    state: modes[found.normalization['STATE'] ?? ''],
    action: modes[found.normalization['ACTION'] ?? ''],
  }
  const frozen = Object.entries(found.modules).flatMap(([name, { trains }]): [string, Code][] =>
    trains ? [] : [[name, { freeze: 'always' }]],
  )
  const { optimizer } = found.recipe
  const lines = [
    `model: ${expression(model, 0, 7)},`,
    `normalize: ${expression(normalize, 0, 11)},`,
    ...(frozen.length === 0 ? [] : [`modules: ${expression(Object.fromEntries(frozen), 0, 9)},`]),
  ]
  if (optimizer !== null && typeof optimizer['lr'] === 'number')
    lines.push(
      `// LeRobot trains it with ${optimizer.type}, lr ${String(optimizer['lr'])}, and ${found.recipe.schedule?.type ?? 'a constant rate'}.`,
    )
  const code = options.plugin === undefined ? remoteCodeOf(found.type, config) : undefined
  if (code !== undefined)
    lines.push(`// Its ${code.what} is code of ${code.from} that LeRobot fetches and runs (${code.field}).`)
  if (findPolicy(found.type) !== undefined)
    lines.push(`// The catalog describes ${found.type}: its own constructor, ${found.type}({ ... }), needs no modules.`)
  for (const [kind, mode] of Object.entries(found.normalization))
    if ((kind === 'VISUAL' ? images : modes)[mode] === undefined)
      lines.push(`// LeRobot normalises ${kind} by ${mode}, for which there is no word here: choose another.`)
  return lines.join('\n')
}

function bytes(size: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = size === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(size) / 10))
  return `${(size / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power] ?? ''}`
}
