/** A LeRobot policy in the Plan. */
import { baseFields, type NormalizationMode } from '../catalog/lerobot/fields.ts'
import type { PolicyFacts, PolicyModule, PolicyRecipe } from '../catalog/lerobot/facts.ts'
import { findPolicy } from '../catalog/lerobot/index.ts'
import { findLoop } from '../catalog/lerobot/loop.ts'
import type { ModuleFacts } from '../catalog/model.ts'
import { policyType, type ModulePatterns, type PolicyModel } from '../declare/policies.ts'
import type { Lock } from '../lock/lock.ts'
import { isKnown, type Pipeline, type PlanDataset, type PolicyPlanModel } from '../plan/plan.ts'
import { commonWidth } from './data.ts'
import { lockedWeights, noteActionDim } from './model.ts'
import { byDefault, unknown, type Choice, type Notebook } from './notebook.ts'
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
  const config = resolveConfig(model, lock, book)
  const description = {
    config,
    cameras: at.choose('cameras', model.cameras, () => publishedCameras(model, datasets)),
    imageSizes: imageSizes(datasets),
    ...widths(model, datasets, book),
  }
  const facts = findPolicy(type)?.describe(description)
  for (const field of ['chunk', 'observationSteps', 'visual', 'loss'])
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
    chunk: facts?.chunk ?? model.chunk ?? unknown(`the catalog does not describe the policy '${type}'`),
    observationSteps:
      facts?.observationSteps ?? (typeof config['n_obs_steps'] === 'number' ? config['n_obs_steps'] : 1),
    visual: visualOf(facts?.normalization.VISUAL),
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

/** LeRobot's modes of state and action in our words; undefined where the catalog does not describe the policy. */
export function policyModes(
  model: PolicyPlanModel,
): { state: Pipeline['normalize']['state']; action: Pipeline['normalize']['action'] } | undefined {
  const modes = policyFacts(model)?.normalization
  return modes === undefined ? undefined : { state: ours[modes.STATE], action: ours[modes.ACTION] }
}

const ours: Readonly<Record<NormalizationMode, Pipeline['normalize']['state']>> = {
  MEAN_STD: 'meanStd',
  MIN_MAX: 'minMax',
  QUANTILES: 'quantiles',
  QUANTILE10: 'quantiles',
  IDENTITY: 'identity',
}

/** LeRobot's trainer puts ImageNet's statistics in the place of the dataset's (`use_imagenet_stats`). */
function visualOf(mode: NormalizationMode | undefined): PolicyPlanModel['visual'] {
  return mode === undefined || mode === 'IDENTITY' ? 'identity' : 'imagenet'
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
function resolveConfig(model: PolicyModel, lock: Lock | undefined, book: Notebook): Config {
  const type = policyType(model)
  const family = findPolicy(type)
  const loaded =
    model.weights === undefined ? undefined : (lockedWeights(lock, model.weights, model.revision)?.config ?? undefined)
  const pretrained = Object.entries(loaded ?? {}).filter(
    ([name]) => name !== 'type' && !Object.hasOwn(baseFields, name) && !(family && Object.hasOwn(family.managed, name)),
  )
  const config = { ...Object.fromEntries(pretrained), ...model.config } as Config
  const from = loaded !== undefined ? 'lock' : model.config === undefined ? 'default' : 'declared'
  const rest = model.weights === undefined ? "LeRobot's defaults" : "the pretrained policy's fields"
  book.note(['model', 'config'], ['model', 'config'], from, `Beside what is declared: ${rest}.`)
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

/** Per camera, as the first dataset has it that knows; unknown where one is not known. */
function imageSizes(datasets: readonly PlanDataset[]): PolicyPlanModel['imageSizes'] {
  const sizes: Record<string, [number, number]> = {}
  for (const { cameras, cameraSizes } of datasets) {
    if (!isKnown(cameraSizes)) return cameraSizes
    for (const [camera, feature] of Object.entries(cameras)) {
      const size = (cameraSizes as Readonly<Record<string, [number, number]>>)[feature]
      if (size !== undefined) sizes[camera] ??= size
    }
  }
  return sizes
}
