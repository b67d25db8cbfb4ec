/** `vla import`: turns a training configuration of another framework into a pipeline.ts. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { DatasetFeatures } from '../importer/cameras.ts'
import type { Nested } from '../importer/flags.ts'
import type { Surroundings } from '../importer/lerobot.ts'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'
import { paint, plural } from './style.ts'

interface Options {
  readonly fromLerobot?: string | true
  readonly out: string
  readonly processes?: number
  readonly gpu?: string
  readonly cameras?: Readonly<Record<string, string>>
}

export function importCommand({ add }: Registrar): void {
  add(
    new Command('import')
      .description(
        'turn a training configuration of lerobot-train into a pipeline.ts, and say what LeRobot did with it',
      )
      .addOption(
        new Option(
          '--from-lerobot [file]',
          "a train_config.json, or a checkpoint's folder; without one, the flags behind -- are all there is",
        ).makeOptionMandatory(),
      )
      .argument('[flags...]', 'after --: flags of lerobot-train, or a whole command of it, which win over the file')
      .option('--out <file>', 'where the declaration goes; an existing file is not overwritten', 'pipeline.ts')
      .addOption(
        new Option(
          '--processes <n>',
          'processes that trained it, or will (default: what the launcher or the checkpoint says, else 1)',
        ).argParser(count),
      )
      .option('--gpu <name>', 'the GPU, by its name in the catalog')
      .addOption(
        new Option(
          '--cameras <map>',
          'camera of the policy = feature of the dataset: front=observation.images.front,wrist=...',
        ).argParser(cameraMap),
      )
      .addHelpText(
        'after',
        [
          '\nExamples:',
          '  vla import --from-lerobot outputs/train/act/checkpoints/last/pretrained_model/train_config.json',
          '  vla import --from-lerobot -- --policy.type=act --dataset.repo_id=lerobot/pusht --steps=20000',
          '  vla import --from-lerobot -- accelerate launch --num_processes=2 lerobot-train --policy.type=act ...',
        ].join('\n'),
      ),
    async (args, options, io) => importPipeline(args, options as unknown as Options, io),
    'Flags of lerobot-train stand behind --: vla import --from-lerobot -- --policy.type=act ...',
  )
}

function count(value: string): number {
  if (!/^[1-9]\d*$/.test(value)) throw new InvalidArgumentError('Give a whole number above zero.')
  return Number(value)
}

function cameraMap(value: string): Readonly<Record<string, string>> {
  const pairs = value.split(',').map((pair) => pair.split('=').map((side) => side.trim()))
  const broken = pairs.find((pair) => pair.length !== 2 || pair.includes('') || !/^[A-Za-z_]\w*$/.test(pair[0] ?? ''))
  if (broken !== undefined) throw new InvalidArgumentError(`'${broken.join('=')}' is not camera=feature.`)
  const twice = pairs.find(([camera], index) => pairs.findIndex(([first]) => first === camera) < index)
  if (twice !== undefined) throw new InvalidArgumentError(`'${twice[0] ?? ''}' is given twice.`)
  return Object.fromEntries(pairs as [string, string][])
}

async function importPipeline(args: readonly string[], options: Options, io: Io): Promise<Outcome> {
  const out = resolve(io.cwd, options.out)
  if (existsSync(out))
    throw new CannotDo(`${options.out} is there already.`, 'Name another file with --out, or move that one away.')
  const [{ importLerobot }, { overlay, readFlags }, { Ledger }, { plain }] = await Promise.all([
    import('../importer/lerobot.ts'),
    import('../importer/flags.ts'),
    import('../importer/remarks.ts'),
    import('../importer/read.ts'),
  ])
  const ledger = new Ledger()
  const flags = readFlags(args, ledger)
  const file = typeof options.fromLerobot === 'string' ? options.fromLerobot : flags.configPath
  if (file === undefined && args.length === 0)
    throw new CannotDo(
      'There is nothing to import.',
      'Name a train_config.json, or give the flags of lerobot-train behind --.',
    )
  const path = file === undefined ? undefined : configFile(file, io)
  const read = path === undefined ? {} : readNested(path, await parserFor(path))
  if (path !== undefined && typeof read['type'] === 'string' && !('policy' in read) && 'input_features' in read) {
    const beside = join(dirname(path), 'train_config.json')
    throw new CannotDo(
      `${path} is the configuration of a policy, not of its training.`,
      existsSync(beside)
        ? `Name ${beside}.`
        : 'lerobot-train writes a train_config.json beside it. Without one, say what it was trained with behind --: --policy.path=<this folder> --dataset.repo_id=<owner>/<name> ...',
    )
  }
  const config = overlay(read, flags.values)

  // --policy.path: the pretrained policy's own configuration lies below what is said, and names the type.
  const policy = (config['policy'] ?? {}) as Nested
  const pathSaid = plain(policy['path'])
  const pretrainedPath = typeof pathSaid === 'string' ? pathSaid : plain(policy['pretrained_path'])
  const pretrained = typeof pretrainedPath === 'string' ? pretrainedConfig(pretrainedPath, io) : undefined
  if (typeof pathSaid === 'string') {
    const type = pretrained?.['type'] ?? published[pathSaid]
    config['policy'] = { ...pretrained, ...(type === undefined ? {} : { type }), ...policy, pretrained_path: pathSaid }
    if (type === undefined)
      ledger.refuse(
        'policy.path',
        `${pathSaid} is not on this machine, so that the type of the policy is not known.`,
        'Fetch it (hf download), or say both --policy.type and --policy.pretrained_path.',
      )
  }
  const from = path === undefined ? 'the flags' : basename(path)
  const around: Surroundings = {
    from: path !== undefined && args.length > 0 ? `${from} and the flags` : from,
    processes:
      options.processes ?? flags.launcher.processes ?? (path === undefined ? undefined : trainedProcesses(path)),
    nodes: flags.launcher.nodes,
    mixedPrecision: flags.launcher.mixedPrecision,
    gpu: options.gpu,
    cameras: options.cameras,
    dataset: datasetFeatures(plain(((config['dataset'] ?? {}) as Nested)['root']), io),
    pretrained,
    relocate: (source) => relocated(source, out, io),
    relocateWeights: (source) => (isHubId(source, io) ? source : relocated(source, out, io)),
  }
  const { text, remarks, problems } = importLerobot(config, around, ledger)
  if (text === undefined) {
    const lines = problems.flatMap(({ field, message, fix }) => [`  ${field}: ${message}`, `    ${fix}`])
    throw new CannotDo(
      [
        `${from === 'the flags' ? 'The flags' : from} cannot be imported (${plural(problems.length, 'problem')}):`,
        ...lines,
      ].join('\n'),
      'Put these right, then import again. Nothing was written.',
    )
  }
  await mkdir(dirname(out), { recursive: true })
  // `wx`: a file that appeared in the meantime is somebody's.
  await writeFile(out, text, { flag: 'wx' })
  const told = remarks.map(({ kind, field, message, source }) =>
    [
      `${paint(io, 'bold', kind.padEnd(7))}  ${field}`,
      `         ${message}`,
      ...(source === null ? [] : [`         ${paint(io, 'dim', source)}`]),
    ].join('\n'),
  )
  return {
    exit: EXIT.ok,
    data: { file: out, source: path ?? null, remarks },
    text: told.join('\n'),
    summary: `${paint(io, 'green', 'wrote')}  ${options.out}: ${plural(remarks.length, 'remark')}, which also stand on top of it.\nNext: vla check ${options.out}`,
  }
}

/** Types of published policies whose config.json is usually not at hand when a command line is imported. */
const published: Readonly<Record<string, string>> = {
  'lerobot/smolvla_base': 'smolvla',
  'lerobot/pi0_base': 'pi0',
  'lerobot/pi05_base': 'pi05',
  'lerobot/xvla-base': 'xvla',
}

/** The file itself, or the train_config.json of a checkpoint's folder or of a snapshot in the hub's cache. */
function configFile(source: string, io: Io): string {
  const path = resolve(io.cwd, source)
  if (existsSync(path) && !statSync(path).isDirectory()) return path
  const folders = foldersOf(source, io)
  const names = ['train_config.json', 'pretrained_model/train_config.json']
  const found = folders.flatMap((folder) => names.map((name) => join(folder, name))).find((name) => existsSync(name))
  if (found !== undefined) return found
  if (existsSync(path))
    throw new CannotDo(`${path} holds no train_config.json.`, 'Name the file, or a checkpoint of lerobot-train.')
  throw new CannotDo(
    `${path} is not there.`,
    isHubId(source, io)
      ? `Name a train_config.json of lerobot-train. If ${source} is on the hub: hf download ${source} train_config.json`
      : 'Name a train_config.json of lerobot-train, or give its flags behind --.',
  )
}

type Parser = (text: string) => unknown

async function parserFor(path: string): Promise<Parser> {
  if (!/\.ya?ml$/.test(path)) return JSON.parse
  const { parse } = await import('yaml')
  return (text) => parse(text, { version: '1.1' }) as unknown
}

function readNested(path: string, parse: Parser = JSON.parse): Nested {
  let value: unknown
  try {
    value = parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new CannotDo(
      `${path} cannot be read: ${(error as Error).message}`,
      'It should be JSON, as lerobot-train writes it.',
    )
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Nested
  throw new CannotDo(`${path} holds no object.`, 'It should be a train_config.json of lerobot-train.')
}

/** config.json of a policy directory, or of a snapshot in the hub's cache. */
function pretrainedConfig(source: string, io: Io): Nested | undefined {
  const file = foldersOf(source, io)
    .map((folder) => join(folder, 'config.json'))
    .find((name) => existsSync(name))
  return file === undefined ? undefined : readNested(file)
}

/** Where a source may lie: the folder, then its snapshots in the hub's cache, that of the main branch first. */
function foldersOf(source: string, io: Io): readonly string[] {
  const home =
    io.env['HF_HOME'] ?? join(io.env['XDG_CACHE_HOME'] ?? join(io.env['HOME'] ?? '/', '.cache'), 'huggingface')
  const cache = join(io.env['HF_HUB_CACHE'] ?? join(home, 'hub'), `models--${source.replaceAll('/', '--')}`)
  const [snapshots, main] = [join(cache, 'snapshots'), join(cache, 'refs/main')]
  const names = existsSync(snapshots) ? readdirSync(snapshots) : []
  const newest = existsSync(main) ? readFileSync(main, 'utf8').trim() : ''
  const ordered = [...names.filter((name) => name === newest), ...names.filter((name) => name !== newest)]
  return [resolve(io.cwd, source), ...ordered.map((name) => join(snapshots, name))]
}

/** How many processes wrote the checkpoint that the configuration lies in. */
function trainedProcesses(path: string): number | undefined {
  const state = join(dirname(path), '../training_state/training_step.json')
  const processes = existsSync(state) ? readNested(state)['num_processes'] : undefined
  return typeof processes === 'number' && Number.isInteger(processes) && processes > 0 ? processes : undefined
}

/** Features of a dataset on disk. */
function datasetFeatures(root: unknown, io: Io): DatasetFeatures | undefined {
  const file = typeof root === 'string' ? join(resolve(io.cwd, root), 'meta/info.json') : undefined
  if (file === undefined || !existsSync(file)) return undefined
  const features = readNested(file)['features']
  return typeof features === 'object' && features !== null ? (features as DatasetFeatures) : undefined
}

/** `owner/name`, where no such folder is here. */
function isHubId(source: string, io: Io): boolean {
  return /^[\w.-]+\/[\w.-]+$/.test(source) && !existsSync(resolve(io.cwd, source))
}

/** A path as pipeline.ts writes it: relative to itself where it was relative. */
function relocated(source: string, out: string, io: Io): string {
  if (isAbsolute(source)) return source
  const path = relative(dirname(out), resolve(io.cwd, source)).split(sep).join('/')
  return path === '' ? '.' : path
}
