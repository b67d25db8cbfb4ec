/** lerobot-train's configuration, read against the tables: everything filled in, and every mistake told at once. */
import type { Field, Fields, Values } from '../catalog/lerobot/fields.ts'
import { baseFields } from '../catalog/lerobot/fields.ts'
import { findPolicy, policies } from '../catalog/lerobot/index.ts'
import { registeredTypes } from '../catalog/lerobot/registered.ts'
import { suggest } from '../declare/suggest.ts'
import {
  datasetFields,
  evalFields,
  jobFields,
  metaworldFields,
  optimizerFields,
  otherReleases,
  peftFields,
  schedulerFields,
  trainFields,
  transformFields,
  wandbFields,
  type DatasetPart,
  type EvalPart,
  type JobPart,
  type MetaworldPart,
  type PeftPart,
  type Train,
  type Transforms,
  type WandbPart,
} from './fields.ts'
import { isNested, Written, type Nested } from './flags.ts'
import type { Ledger } from './remarks.ts'

/** A feature of a policy, as LeRobot writes it. */
export interface Feature {
  readonly type: string
  readonly shape: readonly number[]
}

export interface ReadPolicy {
  readonly type: string
  /** What the configuration says, by LeRobot's names; what it leaves out has LeRobot's default. */
  readonly said: Readonly<Record<string, unknown>>
  readonly inputs: Readonly<Record<string, Feature>>
}

/** A typed part: `{ type: 'adamw', lr: 1e-3 }`. */
export interface Typed {
  readonly type: string
  readonly values: Readonly<Record<string, unknown>>
  /** What of it was said. */
  readonly said: readonly string[]
}

export interface ReadConfiguration {
  readonly train: Train
  readonly dataset: DatasetPart
  readonly transforms: Transforms
  readonly policy: ReadPolicy
  readonly optimizer: Typed | null
  readonly scheduler: Typed | null
  readonly env: { readonly type: string; readonly metaworld: MetaworldPart | null } | null
  readonly eval: EvalPart
  readonly wandb: WandbPart
  readonly peft: PeftPart | null
  readonly job: JobPart
  readonly sampleWeighting: boolean
  /** Fields of the top level that were said. */
  readonly said: ReadonlySet<string>
}

const parts = [
  'dataset',
  'env',
  'policy',
  'reward_model',
  'optimizer',
  'scheduler',
  'eval',
  'wandb',
  'peft',
  'job',
  'sample_weighting',
] as const

/** Reads a configuration; undefined where something in it is wrong, which then stands in the ledger. */
export function readConfiguration(config: Nested, ledger: Ledger): ReadConfiguration | undefined {
  const before = ledger.problems.length
  const top = Object.fromEntries(Object.entries(config).filter(([key]) => !(parts as readonly string[]).includes(key)))
  const train = readFields(trainFields, top, '', ledger, parts)
  if (plain(config['reward_model']) !== undefined && plain(config['reward_model']) !== null)
    ledger.refuse('reward_model', 'It trains a reward model.', 'vla trains policies; keep lerobot-train for this one.')

  const { image_transforms: transforms, ...datasetRest } = record(config, 'dataset', ledger) ?? {}
  if (plain(datasetRest['repo_id']) === undefined)
    ledger.refuse('dataset.repo_id', 'No dataset is named.', 'Add --dataset.repo_id=<owner>/<name>.')
  else if (Array.isArray(plain(datasetRest['repo_id'])))
    ledger.refuse(
      'dataset.repo_id',
      'A list of datasets: LeRobot 0.6.1 refuses it.',
      'Import it with one dataset, then write the list as data: [{ from: lerobotDataset(...), weight: 1 }, ...].',
    )
  const dataset = readFields(datasetFields, datasetRest, 'dataset.', ledger, ['image_transforms'])
  const readTransforms = readFields(
    transformFields,
    transforms === undefined ? {} : (asRecord(transforms, 'dataset.image_transforms', ledger) ?? {}),
    'dataset.image_transforms.',
    ledger,
  )

  const policy = readPolicy(config, ledger)
  const peft = record(config, 'peft', ledger)
  const read = {
    train,
    dataset,
    transforms: readTransforms,
    optimizer: readTyped('optimizer', optimizerFields, config, ledger),
    scheduler: readTyped('scheduler', schedulerFields, config, ledger),
    env: readEnv(config, ledger),
    eval: readFields(evalFields, record(config, 'eval', ledger) ?? {}, 'eval.', ledger),
    wandb: readFields(wandbFields, record(config, 'wandb', ledger) ?? {}, 'wandb.', ledger),
    peft: peft === undefined ? null : readFields(peftFields, peft, 'peft.', ledger),
    job: readFields(jobFields, record(config, 'job', ledger) ?? {}, 'job.', ledger),
    sampleWeighting: (plain(config['sample_weighting']) ?? null) !== null,
    said: new Set(Object.keys(config)),
  }
  return policy === undefined || ledger.problems.length > before ? undefined : { ...read, policy }
}

function readPolicy(config: Nested, ledger: Ledger): ReadPolicy | undefined {
  const policy = record(config, 'policy', ledger)
  if (policy === undefined) {
    // Anything that is no object has been told.
    if ((plain(config['policy']) ?? null) !== null) return undefined
    ledger.refuse('policy', 'No policy is named.', 'Add --policy.type=<type>, or --policy.path=<pretrained policy>.')
    return undefined
  }
  const type = plain(policy['type'])
  if (typeof type !== 'string') {
    ledger.refuse(
      'policy.type',
      'The type of the policy is not said.',
      `Add --policy.type, one of ${listed(Object.keys(policies))}.`,
    )
    return undefined
  }
  const family = findPolicy(type)
  if (family === undefined) {
    const known = (registeredTypes as readonly string[]).includes(type)
    const meant = suggest(type, registeredTypes)
    const message = known
      ? `vla import does not know how LeRobot trains '${type}'; it knows ${listed(Object.keys(policies))}.`
      : `LeRobot 0.6.1 has no policy '${type}'.`
    const plugin = `vla inspect ${type}${known ? '' : ' --plugin <package>'} proposes lerobotPolicy({ type: '${type}', ... }) for a pipeline.ts of your own.`
    ledger.refuse(
      'policy.type',
      message,
      meant === undefined || known ? plugin : `Did you mean '${meant}'? Or, for a plugin's policy: ${plugin}`,
    )
    return undefined
  }
  const table: Fields = { ...baseFields, ...family.fields, ...family.managed }
  const elsewhere = new Set(['type', 'path', 'discover_packages_path'])
  const rest = Object.fromEntries(
    Object.entries(policy)
      .filter(([name]) => !elsewhere.has(name))
      // LeRobot takes null and {} for the features of the dataset.
      .map(([name, value]) => [name, /^(?:in|out)put_features$/.test(name) ? (plain(value) ?? {}) : value]),
  )
  const values: Readonly<Record<string, unknown>> = readFields(table, rest, 'policy.', ledger)
  const said = Object.fromEntries(Object.keys(rest).map((name) => [name, values[name]]))
  return { type, said, inputs: readFeatures(said['input_features'], ledger) }
}

function readFeatures(features: unknown, ledger: Ledger): Readonly<Record<string, Feature>> {
  const read: Record<string, Feature> = {}
  for (const [name, feature] of Object.entries((features ?? {}) as Nested)) {
    const { type, shape } = (feature ?? {}) as { type?: unknown; shape?: unknown }
    if (typeof type === 'string' && Array.isArray(shape) && shape.every((side) => typeof side === 'number'))
      read[name] = { type, shape: shape }
    else
      ledger.refuse(
        `policy.input_features.${name}`,
        'A feature is { "type": ..., "shape": [...] }.',
        'Take it from the config.json of the policy.',
      )
  }
  return read
}

function readEnv(config: Nested, ledger: Ledger): ReadConfiguration['env'] {
  const env = record(config, 'env', ledger)
  if (env === undefined) return null
  const { type, ...rest } = env
  const name = plain(type)
  if (typeof name !== 'string') {
    ledger.refuse('env.type', 'The type of the simulator is not said.', 'Add --env.type.')
    return null
  }
  return {
    type: name,
    metaworld: name === 'metaworld' ? readFields(metaworldFields, rest, 'env.', ledger) : null,
  }
}

function readTyped(
  field: 'optimizer' | 'scheduler',
  tables: Readonly<Record<string, Fields>>,
  config: Nested,
  ledger: Ledger,
): Typed | null {
  const found = record(config, field, ledger)
  if (found === undefined) return null
  const { type, ...rest } = found
  // LeRobot's default choice of an optimizer is Adam.
  const name = plain(type) ?? (field === 'optimizer' ? 'adam' : undefined)
  if (typeof name !== 'string' || !Object.hasOwn(tables, name)) {
    const known = Object.keys(tables)
    const meant = typeof name === 'string' ? suggest(name, known) : undefined
    ledger.refuse(
      `${field}.type`,
      name === undefined
        ? `The type of the ${field} is not said.`
        : `LeRobot 0.6.1 has no ${field} ${JSON.stringify(name)}.`,
      meant === undefined ? `It has ${listed(known)}.` : `Did you mean '${meant}'?`,
    )
    return null
  }
  const values = readFields(tables[name] ?? {}, rest, `${field}.`, ledger)
  return { type: name, values, said: Object.keys(rest) }
}

/** Reads fields against a table; what is wrong is told, and read as the default. */
function readFields<F extends Fields>(
  table: F,
  given: Nested,
  prefix: string,
  ledger: Ledger,
  besides: readonly string[] = [],
): Values<F> {
  const values: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(table) as [string, Field][]) {
    if (!Object.hasOwn(given, name)) {
      values[name] = field.default
      continue
    }
    const candidates = readings(given[name])
    const accepted = candidates.map((candidate) => field.schema.safeParse(candidate)).find(({ success }) => success)
    values[name] = accepted?.success === true ? accepted.data : field.default
    if (accepted !== undefined) continue
    const issue = field.schema.safeParse(candidates[0]).error?.issues[0]?.message ?? 'another type was expected'
    ledger.refuse(
      `${prefix}${name}`,
      `It cannot be ${JSON.stringify(candidates[0])}: ${issue}.`,
      `LeRobot's default is ${JSON.stringify(field.default)}.`,
    )
  }
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(table, name)) continue
    const at = `${prefix}${name}`
    const other = Object.hasOwn(otherReleases, at) ? otherReleases[at] : undefined
    const meant = suggest(name, [...Object.keys(table), ...besides])
    ledger.refuse(
      at,
      `LeRobot 0.6.1 has no field '${at}', and refuses to read it.${other === undefined ? '' : ` ${other}`}`,
      meant === undefined || other !== undefined
        ? 'Remove it, or say it in pipeline.ts afterwards.'
        : `Did you mean '${prefix}${meant}'?`,
    )
  }
  // The keys are those of the table, and each value passed its schema or is its default.
  return values as Values<F>
}

/** The meanings that a written value can have, the likeliest first. */
function readings(value: unknown): unknown[] {
  if (!(value instanceof Written)) return [value]
  const { text, value: read } = value
  const words: Readonly<Record<string, boolean>> = { true: true, yes: true, false: false, no: false }
  const word = words[text.toLowerCase()]
  return [read, ...(word === undefined ? [] : [word]), text]
}

/** A value as YAML read it, whichever field it belongs to; a text where it may be one. */
export function plain(value: unknown): unknown {
  if (!(value instanceof Written)) return value
  return typeof value.value === 'number' || typeof value.value === 'boolean' ? value.text : value.value
}

function record(config: Nested, field: string, ledger: Ledger): Nested | undefined {
  const value = plain(config[field])
  return value === undefined || value === null ? undefined : asRecord(value, field, ledger)
}

function asRecord(value: unknown, field: string, ledger: Ledger): Nested | undefined {
  if (isNested(value)) return value
  ledger.refuse(
    field,
    `It cannot be ${JSON.stringify(value)}: an object is expected.`,
    `Write its fields: --${field}.<field>=<value>.`,
  )
  return undefined
}

function listed(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(', ')
}
