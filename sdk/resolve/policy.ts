/** A LeRobot policy in the Plan. */
import { policyFamily, type PolicyConfig, type PolicyFamily } from '../catalog/policies.ts'
import type { ModuleFacts } from '../catalog/model.ts'
import type { ModulePatterns, PolicyModel } from '../declare/policies.ts'
import type { Lock } from '../lock/lock.ts'
import { isKnown, type PlanDataset, type PolicyPlanModel, type Unknown } from '../plan/plan.ts'
import { commonWidth } from './data.ts'
import { lockedWeights, noteActionDim } from './model.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'
import { below } from './run.ts'

/** The cameras of the published policy, where the declaration names none. */
export function policyCameras({ type }: PolicyModel): readonly string[] {
  return policyFamily(type)?.cameras ?? []
}

/** A LeRobot policy: what its configuration is made with, and what the run does that LeRobot does not. */
export function resolvePolicy(
  model: PolicyModel,
  datasets: readonly PlanDataset[],
  lock: Lock | undefined,
  book: Notebook,
): PolicyPlanModel {
  const at = below(book, ['model'], ['model'])
  const family = policyFamily(model.type)
  const catalog = <T>(value: T, reason: string): Choice<T> => ({ value, from: 'catalog', reason })
  const actionDim = commonWidth(datasets, 'actionDim')
  noteActionDim(actionDim, book)
  const stateDim = model.state === false ? 0 : commonWidth(datasets, 'stateDim')
  book.note(
    ['model', 'stateDim'],
    ['model', 'state'],
    model.state === false ? 'declared' : isKnown(stateDim) ? 'lock' : 'derived',
    model.state === false ? 'No proprioception.' : 'Width of the proprioception in the data.',
  )
  for (const field of ['family', 'type'] as const) book.note(['model', field], ['model'], 'declared', 'As declared.')
  const cameras = at.choose('cameras', model.cameras, () =>
    catalog(policyCameras(model), `The cameras of the published ${model.type}.`),
  )
  const config = effectiveConfig(model, family, lock)
  const chunk = at.choose<number | Unknown>('chunk', model.chunk, () => {
    const field = family?.chunkField ?? 'chunk_size'
    const size = config[field]
    return typeof size === 'number'
      ? catalog(size, `LeRobot's ${field} of ${model.type}.`)
      : derived(unknown(`nothing says the ${field} of ${model.type}`), 'Not known.')
  })
  const steps = config['n_obs_steps']
  book.note(
    ['model', 'observationSteps'],
    ['model', 'config'],
    model.config?.['n_obs_steps'] === undefined ? 'catalog' : 'declared',
    "LeRobot's n_obs_steps.",
  )
  book.note(
    ['model', 'imageSizes'],
    ['data'],
    'lock',
    'As the dataset has them; the policy resizes where it needs another size.',
  )
  const trained = `${model.type} is trained so in LeRobot.`
  return {
    family: 'lerobot',
    type: model.type,
    plugin: at.choose<string | null>('plugin', model.plugin, () => byDefault(null, "LeRobot's own.")),
    cameras: [...cameras],
    config: declaredConfig(model, family, chunk, book),
    weights: at.choose(
      'weights',
      model.weights === undefined
        ? undefined
        : { source: model.weights, revision: model.revision ?? null, layout: 'lerobot' as const },
      () => byDefault(null, 'LeRobot initialises it.'),
    ),
    chunk,
    observationSteps: typeof steps === 'number' ? steps : 1,
    stateDim,
    actionDim,
    imageSizes: imageSizes(datasets),
    visual: at.take('visual', catalog(family?.normalization.visual ?? 'identity', trained)),
    padding: at.choose('padding', model.padding, () =>
      byDefault('masked', 'Actions beyond the end of an episode are no demonstrations.'),
    ),
    loss: at.take(
      'loss',
      family === undefined
        ? derived('validCount', "LeRobot's mean, weighted by the count of valid elements: its terms are not known.")
        : catalog(family.loss, "Reduced over all processes as LeRobot's loss is made."),
    ),
    statistics: at.choose('statistics', model.statistics, () => byDefault('dataset', "The dataset's own.")),
  }
}

/** The modules of a policy: those that the declaration names, or those of the catalog. */
export function policyModules(model: PolicyModel, plan: PolicyPlanModel, lock: Lock | undefined): ModuleFacts[] {
  const family = policyFamily(model.type)
  if (model.modules !== undefined) return Object.entries(model.modules).map(ownModule)
  if (family === undefined) return []
  return family.describe({
    config: effectiveConfig(model, family, lock),
    cameras: plan.cameras.length,
    stateDim: isKnown(plan.stateDim) ? plan.stateDim : undefined,
    actionDim: isKnown(plan.actionDim) ? plan.actionDim : undefined,
  })
}

function ownModule([name, { parameters, blocks = [], dead = [] }]: [string, ModulePatterns]): ModuleFacts {
  return { name, patterns: parameters, blocks, dead, liveBlocks: blocks.map(() => undefined), parameters: undefined }
}

/** What sizes follow from: LeRobot's defaults, the pretrained policy's fields, the declared ones. */
function effectiveConfig(model: PolicyModel, family: PolicyFamily | undefined, lock: Lock | undefined): PolicyConfig {
  const pretrained =
    model.weights === undefined ? undefined : lockedWeights(lock, model.weights, model.revision)?.config
  const chunk = model.chunk === undefined ? {} : { [family?.chunkField ?? 'chunk_size']: model.chunk }
  return { ...family?.defaults, ...pretrained, ...model.config, ...chunk }
}

/** The fields that LeRobot's configuration is given; the chunk brings how much of it is executed. */
function declaredConfig(
  model: PolicyModel,
  family: PolicyFamily | undefined,
  chunk: number | Unknown,
  book: Notebook,
): PolicyPlanModel['config'] {
  book.note(
    ['model', 'config'],
    ['model', 'config'],
    model.config === undefined ? 'default' : 'declared',
    model.weights === undefined ? "The rest is LeRobot's default." : "The rest is the pretrained policy's.",
  )
  const config: PolicyPlanModel['config'] = { ...(model.config as PolicyPlanModel['config'] | undefined) }
  if (model.chunk === undefined || !isKnown(chunk)) return config
  config[family?.chunkField ?? 'chunk_size'] = chunk
  const executed = family?.defaults['n_action_steps']
  if (config['n_action_steps'] === undefined && (typeof executed !== 'number' || executed > chunk))
    config['n_action_steps'] = chunk
  return config
}

/** Per camera, where all datasets agree. */
function imageSizes(datasets: readonly PlanDataset[]): PolicyPlanModel['imageSizes'] {
  const sizes: Record<string, [number, number]> = {}
  for (const { cameras, cameraSizes } of datasets) {
    if (!isKnown(cameraSizes)) return cameraSizes as Unknown
    for (const [camera, feature] of Object.entries(cameras)) {
      const size = (cameraSizes as Readonly<Record<string, [number, number]>>)[feature]
      if (size !== undefined) sizes[camera] ??= size
    }
  }
  return sizes
}
