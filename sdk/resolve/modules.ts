/** The modules of the Plan: what trains, when, how fast, in which precision. */
import { findGpu } from '../catalog/gpus.ts'
import { modelModules, type ModuleFacts } from '../catalog/model.ts'
import { openvlaLora, openvlaRecipe } from '../catalog/openvla.ts'
import { adaptedLayers, adapterElements, elements, fnmatch, type Parameter } from '../catalog/parameters.ts'
import { isPolicy, type Model } from '../declare/model.ts'
import type { ModuleOptions } from '../declare/modules.ts'
import type { Declaration } from '../declare/pipeline.ts'
import type { DeclarationPath } from '../finding/finding.ts'
import type { Lock, WeightsEntry } from '../lock/lock.ts'
import { isKnown, type DType, type Pipeline, type PlanModel, type PlanModule, type Unknown } from '../plan/plan.ts'
import { everTrains, phases, schedulePhrase } from './freeze.ts'
import { lockedWeights } from './model.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'
import { frozenByLerobot, policyModules, policyRecipe } from './policy.ts'
import { below } from './below.ts'

/** Every module of the model, whether the user named it or not. */
export function resolveModules(
  declaration: Declaration,
  model: PlanModel,
  facts: readonly ModuleFacts[],
  hardware: Pipeline['hardware'],
  parallel: Pipeline['parallel'],
  lock: Lock | undefined,
  book: Notebook,
): PlanModule[] {
  const locked =
    model.weights === null ? undefined : lockedWeights(lock, model.weights.source, model.weights.revision ?? undefined)
  return facts.map((module, index) => {
    const options = declaration.modules?.[module.name] ?? {}
    return resolveModule(declaration, module, options, index, hardware, parallel, model, locked, book)
  })
}

/** The modules of a model, as the catalog or the declaration describes them. */
export function describeModules(declared: Model, model: PlanModel): readonly ModuleFacts[] {
  if (model.family !== 'lerobot') return modelModules(model)
  return isPolicy(declared) ? policyModules(declared, model) : []
}

function resolveModule(
  declaration: Declaration,
  facts: ModuleFacts,
  options: ModuleOptions,
  index: number,
  hardware: Pipeline['hardware'],
  parallel: Pipeline['parallel'],
  model: PlanModel,
  locked: WeightsEntry | undefined,
  book: Notebook,
): PlanModule {
  const { training } = declaration
  const place = ['modules', index]
  const path: DeclarationPath = ['modules', facts.name]
  const at = below(book, place, path)
  const openvla = model.family === 'openvla'
  book.note(place, path, 'catalog', `Module of ${modelName(model)}.`)

  const asleep =
    options.freeze === undefined && options.lr === undefined && options.adapt === undefined && frozen(model, facts.name)
  const freeze = phases(asleep ? 'always' : options.freeze, training.updates)
  if (asleep) book.note([...place, 'freeze'], [...path, 'freeze'], 'recipe', 'LeRobot freezes it by default.')
  else if (options.freeze === undefined)
    book.note([...place, 'freeze'], [...path, 'freeze'], 'default', 'Trains from the first update on.')
  else {
    const from = typeof options.freeze === 'string' ? 'declared' : 'derived'
    book.note([...place, 'freeze'], [...path, 'freeze'], from, schedulePhrase(options.freeze, freeze, training.updates))
  }
  const trains = everTrains(freeze, training.updates)
  const adapt = resolveAdapt(options, place, path, book)
  const recipe = publishedRecipe(model, facts.name, adapt !== null)
  const lr = resolveLr(declaration, options, trains, recipe, place, path, book)
  const dtype = at.choose<DType>('dtype', options.dtype, () => defaultDtype(hardware))
  const baseTrains = trains && adapt === null
  const storage = at.choose<DType>('storage', options.storage, () =>
    defaultStorage(dtype, baseTrains, adapt !== null, facts, locked, parallel, openvla),
  )
  return {
    name: facts.name,
    parameters: [...facts.patterns],
    dead: [...facts.dead],
    blocks: [...facts.blocks],
    liveBlocks: facts.liveBlocks.map((count) => count ?? unknown(undescribed(facts.name, model))),
    lr,
    weightDecay: resolveWeightDecay(training.weightDecay, options.weightDecay, recipe, place, path, book),
    dtype,
    storage,
    recompute: at.choose('recompute', options.recompute, () => {
      const published: readonly string[] = openvla && adapt === null ? openvlaRecipe.recomputed : []
      return published.includes(facts.name)
        ? { value: 'full', from: 'recipe', reason: openvlaRecipe.source }
        : byDefault('none', 'Activations are kept.')
    }),
    freeze,
    adapt,
    ...counts(facts, adapt, model, place, book),
  }
}

function modelName(model: PlanModel): string {
  if (model.family === 'lerobot') return `LeRobot's ${model.type}`
  return model.family === 'openvla' ? 'OpenVLA' : 'the composed VLA'
}

function frozen(model: PlanModel, name: string): boolean {
  return model.family === 'lerobot' && frozenByLerobot(model, name)
}

/** What the module was published with. */
function publishedRecipe(
  model: PlanModel,
  name: string,
  adapted: boolean,
): { readonly lr: number; readonly weightDecay: number; readonly source: string } | undefined {
  if (model.family === 'openvla') return adapted || name === 'action' ? openvlaLora : openvlaRecipe
  const recipe = model.family === 'lerobot' ? policyRecipe(model) : undefined
  if (recipe === undefined) return undefined
  return {
    lr: recipe.lr * (recipe.lrFactors[name] ?? 1),
    weightDecay: recipe.weightDecay * (recipe.weightDecayFactors[name] ?? 1),
    source: recipe.source,
  }
}

/** Why the parameters of a module are not known: what they depend on is not, or the catalog does not describe its parts. */
function undescribed(module: string, model: PlanModel): string {
  if (model.family === 'lerobot') return `the catalog does not describe the parameters of module '${module}'`
  const towers = model.vision.towers.map(({ width }) => width)
  const { hidden } = model.language
  const needs: Readonly<Record<string, readonly unknown[]>> = {
    vision: towers,
    projector: [model.stateDim, ...towers, hidden],
    language: [hidden],
    action: [model.actionDim, hidden],
  }
  const open = (needs[module] ?? []).find((value): value is Unknown => !isKnown(value))
  return open?.because ?? `the catalog does not describe the parameters of module '${module}'`
}

/** Declared for the module, declared for all, or published; null where nothing ever trains. */
function resolveLr(
  { training }: Declaration,
  options: ModuleOptions,
  trains: boolean,
  recipe: { readonly lr: number; readonly source: string } | undefined,
  place: readonly (string | number)[],
  path: DeclarationPath,
  book: Notebook,
): PlanModule['lr'] {
  const at = [...place, 'lr']
  const own = [...path, 'lr']
  if (!trains) {
    const reason =
      options.lr === undefined
        ? 'Nothing of it ever trains.'
        : `Declared ${String(options.lr)}, but nothing of it ever trains.`
    // Where a rate was declared, the note says so: it has no effect, and a rule tells.
    book.note(at, own, options.lr === undefined ? 'derived' : 'declared', reason)
    return null
  }
  if (options.lr !== undefined) return book.choose(at, own, options.lr, () => byDefault(options.lr ?? 0, ''))
  if (training.lr !== undefined) {
    book.note(at, ['training', 'lr'], 'declared', 'As declared for all modules.')
    return training.lr
  }
  if (recipe !== undefined) return book.take(at, own, { value: recipe.lr, from: 'recipe', reason: recipe.source })
  return book.take<PlanModule['lr']>(
    at,
    own,
    derived(unknown('VLA210'), 'The module trains, and nothing gives its learning rate.'),
  )
}

/** Declared for the module, declared for all, published, or none. */
function resolveWeightDecay(
  shared: number | undefined,
  own: number | undefined,
  recipe: { readonly weightDecay: number; readonly source: string } | undefined,
  place: readonly (string | number)[],
  path: DeclarationPath,
  book: Notebook,
): number {
  const at = [...place, 'weightDecay']
  if (own === undefined && shared !== undefined) {
    book.note(at, ['training', 'weightDecay'], 'declared', 'As declared for all modules.')
    return shared
  }
  return book.choose(at, [...path, 'weightDecay'], own, () =>
    recipe === undefined
      ? byDefault(0, 'No decay is declared.')
      : { value: recipe.weightDecay, from: 'recipe', reason: recipe.source },
  )
}

function resolveAdapt(
  options: ModuleOptions,
  place: readonly (string | number)[],
  path: DeclarationPath,
  book: Notebook,
): PlanModule['adapt'] {
  const { adapt } = options
  if (adapt === undefined) {
    book.note([...place, 'adapt'], [...path, 'adapt'], 'default', 'No adapters: the weights themselves train.')
    return null
  }
  const at = below(book, [...place, 'adapt'], [...path, 'adapt'])
  book.note([...place, 'adapt'], [...path, 'adapt'], 'declared', 'As declared.')
  return {
    kind: 'lora',
    rank: adapt.rank,
    alpha: at.choose('alpha', adapt.alpha, () => ({
      value: Math.min(adapt.rank, 16),
      from: 'recipe',
      reason: "min(rank, 16), as OpenVLA's finetune.py.",
    })),
    dropout: at.choose('dropout', adapt.dropout, () => ({
      value: 0,
      from: 'recipe',
      reason: "OpenVLA's finetune.py.",
    })),
    targets: at.choose<string[] | null>('targets', adapt.targets === undefined ? undefined : [...adapt.targets], () =>
      byDefault(null, 'Every linear of the module that receives a gradient.'),
    ),
  }
}

function defaultDtype(hardware: Pipeline['hardware']): Choice<DType> {
  if (hardware.kind === 'cpus') return byDefault('fp32', 'On CPUs bf16 saves no time.')
  const gpu = findGpu(hardware.gpu)
  if (gpu?.bf16 === true) return byDefault('bf16', `${hardware.gpu} has bf16 tensor cores.`)
  return byDefault('fp32', gpu === undefined ? 'The GPU is not known.' : `${hardware.gpu} has no bf16 tensor cores.`)
}

/** What trains has masters in fp32 (fp64 under an fp64 module); what never trains keeps the dtype it is loaded in. */
function defaultStorage(
  dtype: DType,
  baseTrains: boolean,
  adapted: boolean,
  facts: ModuleFacts,
  locked: WeightsEntry | undefined,
  parallel: Pipeline['parallel'],
  openvla: boolean,
): Choice<DType> {
  if (baseTrains)
    return dtype === 'fp64'
      ? derived('fp64', 'It trains: masters in fp64.')
      : derived('fp32', 'It trains: masters in fp32.')
  const rests = adapted ? 'The base never trains (the adapters have their own masters)' : 'It never trains'
  const loaded =
    loadedDtype(facts, locked) ?? (locked === undefined && openvla && facts.name !== 'action' ? 'bf16' : undefined)
  if (loaded === undefined) return derived(dtype, `${rests}: kept in the compute dtype.`)
  if (parallel.kind === 'ddp' && order.indexOf(loaded) < order.indexOf(dtype))
    return derived(dtype, `${rests}: DDP computes in the dtype it stores.`)
  return locked === undefined
    ? { value: loaded, from: 'catalog', reason: `${rests}: kept as it is published.` }
    : { value: loaded, from: 'lock', reason: `${rests}: kept as it is loaded.` }
}

const order: readonly DType[] = ['bf16', 'fp32', 'fp64']

/** The dtype that all of a module's tensors have in the weights directory; undefined where there is no single one. */
function loadedDtype(facts: ModuleFacts, locked: WeightsEntry | undefined): DType | undefined {
  if (locked === undefined) return undefined
  const own = facts.patterns.map(fnmatch)
  const found = new Set<string>()
  for (const [name, { dtype }] of Object.entries(locked.tensors))
    if (own.some((pattern) => pattern.test(name))) found.add(dtype)
  const names: Record<string, DType> = { BF16: 'bf16', F32: 'fp32', F64: 'fp64' }
  const [only] = found
  return found.size === 1 && only !== undefined ? names[only] : undefined
}

function counts(
  facts: ModuleFacts,
  adapt: PlanModule['adapt'],
  model: PlanModel,
  place: readonly (string | number)[],
  book: Notebook,
): Pick<PlanModule, 'count' | 'deadCount' | 'adapterCount'> {
  const { parameters } = facts
  const path = ['model']
  if (parameters === undefined) {
    const open: Unknown = unknown(undescribed(facts.name, model))
    for (const field of ['count', 'deadCount', 'adapterCount'])
      book.note([...place, field], path, 'catalog', 'Not known.')
    return { count: open, deadCount: open, adapterCount: adapt === null ? 0 : open }
  }
  for (const field of ['count', 'deadCount', 'adapterCount'])
    book.note([...place, field], path, 'catalog', "Sum over the model's parameters.")
  const dead = facts.dead.map(fnmatch)
  const buried = (parameter: Parameter): boolean => dead.some((pattern) => pattern.test(parameter.name))
  const layers =
    adapt === null
      ? []
      : adaptedLayers(
          adapt.targets === null ? parameters.filter((parameter) => !buried(parameter)) : parameters,
          adapt.targets,
          [],
        )
  return {
    count: elements(parameters),
    deadCount: elements(parameters.filter(buried)),
    adapterCount: layers.reduce((sum, layer) => sum + adapterElements(layer, adapt?.rank ?? 0), 0),
  }
}
