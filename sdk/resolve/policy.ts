/** A LeRobot policy in the Plan. */
import { baseFields, modesSchema, type NormalizationMode, type NormalizationModes } from '../catalog/lerobot/fields.ts'
import type { PolicyFacts, PolicyModule, PolicyRecipe } from '../catalog/lerobot/facts.ts'
import { findPolicy } from '../catalog/lerobot/index.ts'
import { findLoop } from '../catalog/lerobot/loop.ts'
import type { ModuleFacts } from '../catalog/model.ts'
import { policyType, type ModulePatterns, type PolicyModel } from '../declare/policies.ts'
import { lockFinding } from '../lock/findings.ts'
import type { Lock } from '../lock/lock.ts'
import { sourceKey } from '../lock/source.ts'
import { isKnown, type Pipeline, type PlanDataset, type PolicyPlanModel } from '../plan/plan.ts'
import { commonWidth } from './data.ts'
import { lockedWeights, noteActionDim } from './model.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'
import { below } from './below.ts'

type Config = PolicyPlanModel['config']

/** The cameras of the published policy, where the declaration names none. */
export function policyCameras(model: PolicyModel): readonly string[] {
  return findLoop(policyType(model))?.cameras ?? []
}

/** A LeRobot policy: what its configuration is made with, and what the run does that LeRobot does not. */
export function resolvePolicy(
  model: PolicyModel,
  datasets: readonly PlanDataset[],
  lock: Lock | undefined,
  book: Notebook,
): PolicyPlanModel {
  const at = below(book, ['model'], ['model'])
  const type = policyType(model)
  const published = findLoop(type)
  for (const field of ['family', 'type'] as const) book.note(['model', field], ['model'], 'declared', 'As declared.')
  const config = resolveConfig(model, datasets, lock, book)
  const description = {
    config,
    cameras: at.choose('cameras', model.cameras, () => publishedCameras(model, datasets)),
    imageSizes: imageSizes(datasets),
    ...widths(model, datasets, book),
  }
  const facts = findPolicy(type)?.describe(description)
  for (const field of ['chunk', 'observationSteps', 'loss'])
    book.note(
      ['model', field],
      ['model', ...(field === 'chunk' ? ['chunk'] : [])],
      field === 'chunk' && model.chunk !== undefined ? 'declared' : 'catalog',
      field === 'chunk' && model.chunk !== undefined ? 'As declared.' : `LeRobot's ${type}.`,
    )
  book.note(
    ['model', 'imageSizes'],
    ['data'],
    'lock',
    'As the dataset has them; the policy resizes where it needs another size.',
  )
  return {
    family: 'lerobot',
    type,
    plugin: at.choose<string | null>('plugin', model.kind === 'lerobotPolicy' ? model.plugin : undefined, () =>
      byDefault(null, "LeRobot's own."),
    ),
    config,
    weights: at.choose(
      'weights',
      model.weights === undefined
        ? undefined
        : { source: model.weights, revision: model.revision ?? null, layout: 'lerobot' as const },
      () => byDefault(null, 'LeRobot initialises it.'),
    ),
    pretrainedWidths: at.take('pretrainedWidths', pretrainedWidths(model, lock)),
    tokenizer: at.choose<string | null>('tokenizer', model.tokenizer, () =>
      byDefault(null, "LeRobot's name of it, from the hub or its cache."),
    ),
    chunk: facts?.chunk ?? model.chunk ?? unknown(`the catalog does not describe the policy '${type}'`),
    observationSteps:
      facts?.observationSteps ?? (typeof config['n_obs_steps'] === 'number' ? config['n_obs_steps'] : 1),
    images: at.choose<PolicyPlanModel['images']>('images', model.images, () => imagesOf(model, facts, lock)),
    padding: at.choose('padding', model.padding, () =>
      byDefault('masked', 'Actions beyond the end of an episode are no demonstrations.'),
    ),
    loss: published?.loss ?? 'validCount',
    batchNorm: at.choose('batchNorm', model.batchNorm, () =>
      byDefault('refuse', 'Statistics of micro-batches would make the result depend on how a batch is split.'),
    ),
    statistics: at.choose('statistics', model.statistics, () => byDefault('dataset', "The dataset's own.")),
    cameras: [...description.cameras],
    imageSizes: description.imageSizes,
    stateDim: description.stateDim,
    actionDim: description.actionDim,
  }
}

/** What the catalog knows of the policy of a plan. */
export function policyFacts(model: PolicyPlanModel): PolicyFacts | undefined {
  return findPolicy(model.type)?.describe(model)
}

/** The modules of a policy: those that the declaration names, or those of the catalog. */
export function policyModules(declared: PolicyModel, model: PolicyPlanModel): readonly ModuleFacts[] {
  if (declared.kind === 'lerobotPolicy' && declared.modules !== undefined)
    return Object.entries(declared.modules).map(ownModule)
  return policyFacts(model)?.modules ?? []
}

function ownModule([name, { parameters, blocks = [], dead = [] }]: [string, ModulePatterns]): ModuleFacts {
  return { name, patterns: parameters, blocks, dead, liveBlocks: blocks.map(() => undefined), parameters: undefined }
}

/** What LeRobot trains a policy with, and whether it freezes one of its modules. */
export function policyRecipe(model: PolicyPlanModel): PolicyRecipe | undefined {
  return policyFacts(model)?.recipe
}

/** Whether LeRobot freezes the whole module under this configuration. */
export function frozenByLerobot(model: PolicyPlanModel, name: string): boolean {
  return policyFacts(model)?.modules.some((module: PolicyModule) => module.name === name && module.frozen) ?? false
}

/** LeRobot's modes of state and action in our words; undefined where neither catalog nor pretrained policy says them. */
export function policyModes(
  declared: PolicyModel,
  model: PolicyPlanModel,
  lock: Lock | undefined,
): { state: Mode; action: Mode; from: string } | undefined {
  const facts = policyFacts(model)?.normalization
  if (facts !== undefined)
    return { state: ours[facts.STATE], action: ours[facts.ACTION], from: "LeRobot's configuration of the policy." }
  const { STATE, ACTION } = pretrainedModes(declared, lock)
  return STATE === undefined || ACTION === undefined
    ? undefined
    : { state: ours[STATE], action: ours[ACTION], from: "The pretrained policy's configuration." }
}

type Mode = Pipeline['normalize']['state']

const ours: Readonly<Record<NormalizationMode, Mode>> = {
  MEAN_STD: 'meanStd',
  MIN_MAX: 'minMax',
  QUANTILES: 'quantiles',
  QUANTILE10: 'quantiles',
  IDENTITY: 'identity',
}

/** The modes in the pretrained policy's configuration, where the lock knows it. */
function pretrainedModes(model: PolicyModel, lock: Lock | undefined): Partial<NormalizationModes> {
  const config = model.weights === undefined ? undefined : lockedWeights(lock, model.weights, model.revision)?.config
  const read = modesSchema.safeParse(config?.['normalization_mapping'])
  return read.success ? read.data : {}
}

/** LeRobot's trainer puts ImageNet's statistics in the place of the dataset's (`use_imagenet_stats`). */
function imagesOf(
  model: PolicyModel,
  facts: PolicyFacts | undefined,
  lock: Lock | undefined,
): Choice<PolicyPlanModel['images']> {
  const type = policyType(model)
  const mode = facts?.normalization.VISUAL ?? pretrainedModes(model, lock).VISUAL
  if (mode === undefined)
    return derived(
      unknown(`nothing says how the pictures of '${type}' are normalised`),
      'Neither the declaration nor the catalog says it.',
    )
  const value = mode === 'IDENTITY' ? 'identity' : 'imagenet'
  return facts === undefined
    ? { value, from: 'lock', reason: "The pretrained policy's configuration." }
    : { value, from: 'catalog', reason: `LeRobot's ${type}.` }
}

/** The published policy's cameras; of a policy that fills missing ones with masked pictures, those that every dataset has. */
function publishedCameras(model: PolicyModel, datasets: readonly PlanDataset[]): Choice<readonly string[]> {
  const type = policyType(model)
  const all = policyCameras(model)
  const mapped = all.filter((camera) => datasets.every(({ cameras }) => Object.hasOwn(cameras, camera)))
  const some = mapped.length > 0 && findLoop(type)?.fillsCameras === true ? mapped : all
  const reason = `The cameras of the published ${type}`
  return some.length === all.length
    ? { value: all, from: 'catalog', reason: `${reason}.` }
    : { value: some, from: 'derived', reason: `${reason} that the data has.` }
}

function widths(
  model: PolicyModel,
  datasets: readonly PlanDataset[],
  book: Notebook,
): Pick<PolicyPlanModel, 'stateDim' | 'actionDim'> {
  const actionDim = commonWidth(datasets, 'actionDim')
  noteActionDim(actionDim, book)
  const stateDim = model.state === false ? 0 : commonWidth(datasets, 'stateDim')
  const from = model.state === false ? 'declared' : isKnown(stateDim) ? 'lock' : 'derived'
  const reason = model.state === false ? 'No proprioception.' : 'Width of the proprioception in the data.'
  book.note(['model', 'stateDim'], ['model', 'state'], from, reason)
  return { stateDim, actionDim }
}

/**
 * The fields that LeRobot's configuration is given: the pretrained policy's, where the lock knows them, the declared ones, and the
 * chunk, which brings how much of it is executed.
 */
function resolveConfig(
  model: PolicyModel,
  datasets: readonly PlanDataset[],
  lock: Lock | undefined,
  book: Notebook,
): Config {
  const type = policyType(model)
  const family = findPolicy(type)
  const loaded = pretrainedConfig(model, type, lock, book)
  const pretrained = Object.entries(loaded ?? {}).filter(
    ([name]) =>
      !['type', 'normalization_mapping'].includes(name) &&
      !Object.hasOwn(baseFields, name) &&
      !(family && Object.hasOwn(family.managed, name)),
  )
  const config = { ...Object.fromEntries(pretrained), ...model.config } as Config
  const from = loaded !== undefined ? 'lock' : model.config === undefined ? 'default' : 'declared'
  const rest = model.weights === undefined ? "LeRobot's defaults" : "the pretrained policy's fields"
  book.note(['model', 'config'], ['model', 'config'], from, `Beside what is declared: ${rest}.`)
  const joints = actionNames(datasets, lock)
  if (config['use_relative_actions'] === true && family !== undefined && joints !== undefined)
    if (Object.hasOwn(family.managed, 'action_feature_names')) config['action_feature_names'] = [...joints]
  const field = findLoop(type)?.chunkField
  if (model.chunk === undefined || field === undefined) return config
  config[field] = model.chunk
  if (model.config?.['n_action_steps'] !== undefined) return config
  const executed = config['n_action_steps'] ?? family?.fields['n_action_steps']?.default
  // A diffusion policy's horizon begins with the first observed frame, and only what follows the present one is executed.
  const open = { unknown: true } as const
  const sizes = { config, cameras: [], imageSizes: open, stateDim: open, actionDim: open }
  const most = model.chunk + (family?.describe(sizes).firstAction ?? 0)
  if (typeof executed === 'number' && executed > most) config['n_action_steps'] = most
  return config
}

/** config.json of the pretrained policy, where the lock knows it; a finding where it is of another model. */
function pretrainedConfig(
  model: PolicyModel,
  type: string,
  lock: Lock | undefined,
  book: Notebook,
): Readonly<Record<string, unknown>> | undefined {
  if (model.weights === undefined) return undefined
  const config = lockedWeights(lock, model.weights, model.revision)?.config ?? undefined
  const of = config?.['type'] ?? config?.['model_type']
  if (typeof of !== 'string' || config?.['type'] === type) return config
  const fix =
    findPolicy(of) === undefined
      ? `Name the directory of a LeRobot policy of type '${type}'.`
      : `Use ${of}({ ... }) with these weights, or name weights of '${type}'.`
  const message = `The weights at '${model.weights}' are of a model of type '${of}', and this is '${type}'.`
  book.findings.push(lockFinding('VLA024', ['model', 'weights'], message, fix))
  return undefined
}

/** The widths that pretrained weights pad states and actions to. */
function pretrainedWidths(model: PolicyModel, lock: Lock | undefined): Choice<PolicyPlanModel['pretrainedWidths']> {
  if (model.weights === undefined) return byDefault(null, 'Nothing pretrained.')
  const locked = lockedWeights(lock, model.weights, model.revision)
  if (locked === undefined)
    return derived(unknown(`the lock does not know the weights at '${model.weights}'`), 'Not known.')
  const width = (field: string): number | null => {
    const value = locked.config?.[field]
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null
  }
  const value = { state: width('max_state_dim'), action: width('max_action_dim') }
  return { value, from: 'lock', reason: "The pretrained policy's configuration." }
}

/** The names of the action's dimensions, where every dataset has the same. */
function actionNames(datasets: readonly PlanDataset[], lock: Lock | undefined): readonly string[] | undefined {
  const [first, ...others] = datasets.map(({ root, repo, revision, action }) => {
    const key = sourceKey({ root: root ?? undefined, repo: repo ?? undefined, revision: revision ?? undefined })
    const locked = lock !== undefined && Object.hasOwn(lock.datasets, key) ? lock.datasets[key] : undefined
    return locked?.features[action]?.names ?? undefined
  })
  const same = others.every((names) => names?.join('\n') === first?.join('\n'))
  return same ? first : undefined
}

/** Per camera, as the first dataset has it that knows; unknown where one is not known. */
function imageSizes(datasets: readonly PlanDataset[]): PolicyPlanModel['imageSizes'] {
  const sizes: Record<string, [number, number]> = {}
  for (const { cameras, cameraSizes } of datasets) {
    if (!isKnown(cameraSizes)) return cameraSizes
    for (const [camera, feature] of Object.entries(cameras)) {
      const size = Object.hasOwn(cameraSizes, feature) ? cameraSizes[feature] : undefined
      if (size !== undefined && !Object.hasOwn(sizes, camera)) sizes[camera] = size
    }
  }
  return sizes
}
