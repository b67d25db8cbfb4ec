/** train.py: the recipe, from top to bottom. Nothing stands in it that the plan does not ask for. */
import { isKnown, type ComposedPlanModel, type Pipeline, type PlanDataset, type PlanModule } from '../../plan/plan.ts'
import {
  dataPhrase,
  grouped,
  hardwarePhrase,
  modelPhrase,
  need,
  parallelPhrase,
  projectPath,
  runFolder,
  why,
  writtenBy,
  type Project,
} from '../project.ts'
import { oneLine } from '../text.ts'
import { weightsOf } from './weights.ts'
import { Document, type Body } from './document.ts'
import {
  bool,
  call,
  dict,
  float,
  int,
  list,
  name,
  none,
  py,
  str,
  tuple,
  use,
  type Argument,
  type Py,
} from './literal.ts'

const runtime = (module: string, imported: string): Py => use(`vla_runtime.${module}`, imported)

/** The source, not yet formatted. */
export function trainScript(project: Project): Document {
  const { pipeline } = project
  const document = new Document(
    `${oneLine(`${pipeline.name}: ${modelPhrase(pipeline)} on ${dataPhrase(pipeline)}; ${hardwarePhrase(pipeline)}, ${parallelPhrase(pipeline)}.`)}\n\n${writtenBy(project)}`,
  )
  constants(document, project)
  document.blank().line(py`MODULES = [`)
  const said = new Set<string>()
  pipeline.modules.forEach((module, index) => {
    document.line(py`    ${moduleCall(project, module, index, said)},`)
  })
  document
    .line(py`]`)
    .blank()
    .blank()
  document.block(py`def main() -> None:`, (body) => {
    prepare(body, project)
    body.blank()
    build(body, project)
    body.blank()
    optimise(body, project)
    body.blank()
    loop(body, project)
    body.blank()
    body.line(py`checkpoints.finish(model, optimizer, schedule, data, partition)`, 'last save awaited, group closed')
  })
  document.blank().blank()
  document.block(py`if __name__ == "__main__":`, (body) => {
    body.line(
      py`${runtime('errors', 'run_or_explain')}(main)`,
      'a mistake of the user is printed without a stack trace, exit 2',
    )
  })
  return document
}

function constants(document: Document, project: Project): void {
  const { training } = project.pipeline
  const accumulation = need(training.accumulation, '/training/accumulation')
  document
    .line(py`UPDATES = ${int(training.updates)}`)
    .line(
      py`GLOBAL_BATCH, MICRO_BATCH, ACCUMULATION = ${int(training.globalBatch)}, ${int(training.microBatch)}, ${int(accumulation)}`,
      `${training.microBatch} samples x ${project.world} ${project.world === 1 ? 'process' : 'processes'} x ${accumulation}`,
    )
    .line(py`SEED = ${int(training.seed)}`)
}

/** `Module("vision", parameters=[...], lr=...)`: what differs from the runtime's defaults, and what the user named. A reason is said once. */
function moduleCall(project: Project, module: PlanModule, index: number, said: Set<string>): Py {
  const at = (field: string): string | undefined => {
    const reason = why(project, `/modules/${index}/${field}`)
    if (reason === undefined || said.has(`${field} ${reason}`)) return undefined
    said.add(`${field} ${reason}`)
    return reason
  }
  const texts = (items: readonly string[]): Py => list(items.map(str))
  const trains = module.freeze.some((phase) => phase.trains !== 'none')
  const lr = need(module.lr, `/modules/${index}/lr`)
  return call(runtime('partition', 'Module'), [
    { value: str(module.name) },
    { keyword: 'parameters', value: texts(module.parameters) },
    module.dead.length > 0 ? { keyword: 'dead', value: texts(module.dead), comment: at('dead') } : undefined,
    module.blocks.length > 0 ? { keyword: 'blocks', value: texts(module.blocks) } : undefined,
    lr !== null ? { keyword: 'lr', value: float(lr), comment: at('lr') } : undefined,
    trains ? { keyword: 'weight_decay', value: float(module.weightDecay), comment: at('weightDecay') } : undefined,
    { keyword: 'dtype', value: str(module.dtype), comment: at('dtype') },
    module.storage !== (module.dtype === 'fp64' ? 'fp64' : 'fp32')
      ? { keyword: 'storage', value: str(module.storage), comment: at('storage') }
      : undefined,
    module.recompute === 'full' ? { keyword: 'recompute', value: str('full'), comment: at('recompute') } : undefined,
    phasesDiffer(module)
      ? { keyword: 'freeze', value: phases(module), comment: at('freeze') ?? freezeShares(project, module) }
      : undefined,
    module.adapt !== null
      ? { keyword: 'lora', value: lora(module.adapt), comment: prefixed('alpha: ', at('adapt/alpha')) }
      : undefined,
  ])
}

function prefixed(prefix: string, reason: string | undefined): string | undefined {
  return reason === undefined ? undefined : prefix + reason
}

function phasesDiffer(module: PlanModule): boolean {
  return module.freeze.length > 1 || module.freeze[0]?.trains !== 'all'
}

function phases(module: PlanModule): Py {
  return list(
    module.freeze.map(({ trains, rewarm }, index) => {
      const next = module.freeze[index + 1]
      const until: Argument | undefined = next === undefined ? undefined : { keyword: 'until', value: int(next.from) }
      const warm: Argument | undefined = rewarm === 0 ? undefined : { keyword: 'rewarm', value: int(rewarm) }
      if (trains === 'none') return call(runtime('partition', 'Frozen'), [until])
      if (trains === 'all') return call(runtime('partition', 'AllTrain'), [until, warm])
      return call(runtime('partition', 'LastLayers'), [{ value: int(trains.lastLayers) }, until, warm])
    }),
  )
}

/** What the boundaries are of the run. */
function freezeShares({ pipeline }: Project, module: PlanModule): string | undefined {
  if (module.freeze.length < 2) return undefined
  const { updates } = pipeline.training
  const shares = module.freeze.slice(1).map(({ from }) => `${Number(((100 * from) / updates).toPrecision(3))} %`)
  return `${shares.join(' and ')} of ${grouped(updates)} updates`
}

function lora(adapt: NonNullable<PlanModule['adapt']>): Py {
  return call(runtime('partition', 'Lora'), [
    { keyword: 'rank', value: int(adapt.rank) },
    { keyword: 'alpha', value: float(adapt.alpha) },
    adapt.dropout > 0 ? { keyword: 'dropout', value: float(adapt.dropout) } : undefined,
    adapt.targets !== null ? { keyword: 'targets', value: list(adapt.targets.map(str)) } : undefined,
  ])
}

/** Run, mesh, preflight, data. */
function prepare(body: Body, project: Project): void {
  const { pipeline, world } = project
  const { model } = pipeline
  const trackers = pipeline.track.flatMap((tracker) => {
    if (tracker.kind === 'jsonl') return [] // the run always writes it
    if (tracker.kind === 'tensorboard') return [call(runtime('tracking', 'TensorBoard'), [])]
    return [
      call(runtime('tracking', 'WandB'), [
        { value: str(tracker.project) },
        tracker.entity !== null ? { keyword: 'entity', value: str(tracker.entity) } : undefined,
      ]),
    ]
  })
  body.line(
    py`run = ${call(runtime('run', 'start_run'), [
      { value: str(runFolder(project)) },
      { keyword: 'plan', value: str('plan.json') },
      { keyword: 'seed', value: name('SEED') },
      { keyword: 'world', value: int(world) },
      trackers.length > 0 ? { keyword: 'track', value: list(trackers) } : undefined,
      { keyword: 'skip_non_finite', value: int(pipeline.training.skipNonFinite) },
    ])}`,
    'lock on the directory, process group, device, a log per rank',
  )
  body.line(py`mesh = ${runtime('mesh', 'device_mesh')}(shard=${int(world)})`)
  body.line(py`${use('preflight', 'preflight')}(run)`, 'before anything is allocated')
  body.line(py`data = ${model.family === 'lerobot' ? policySamples(project) : composedSamples(project, model)}`)
}

function datasets(project: Project): Py {
  return list(project.pipeline.datasets.map((dataset, index) => datasetCall(project, dataset, index)))
}

/** What the samples of any model are read with. */
function batches({ pipeline }: Project): (Argument | undefined)[] {
  const { augment, loader } = pipeline
  return [
    { keyword: 'global_batch', value: name('GLOBAL_BATCH') },
    { keyword: 'micro_batch', value: name('MICRO_BATCH') },
    { keyword: 'seed', value: name('SEED') },
    augment !== null ? { keyword: 'augmentation', value: augmentation(augment) } : undefined,
    loader.workers > 0 ? { keyword: 'workers', value: int(loader.workers) } : undefined,
  ]
}

function policySamples(project: Project): Py {
  const { normalize } = project.pipeline
  return call(runtime('policies.samples', 'policy_samples'), [
    { value: datasets(project) },
    { keyword: 'policy', value: use('model', 'POLICY') },
    { keyword: 'run', value: name('run') },
    { keyword: 'mesh', value: name('mesh') },
    { keyword: 'constant', value: str(normalize.constant) },
    ...batches(project),
  ])
}

function composedSamples(project: Project, model: ComposedPlanModel): Py {
  const { normalize } = project.pipeline
  const mask = normalize.actionMask
  return call(runtime('data', 'lerobot_samples'), [
    { value: datasets(project) },
    { keyword: 'config', value: use('model', 'CONFIG') },
    { keyword: 'run', value: name('run') },
    { keyword: 'mesh', value: name('mesh') },
    {
      keyword: 'normalize_state',
      value: str(normalize.state),
      comment: model.stateDim === 0 ? undefined : why(project, '/normalize/state'),
    },
    { keyword: 'normalize_action', value: str(normalize.action), comment: why(project, '/normalize/action') },
    { keyword: 'constant', value: str(normalize.constant) },
    {
      keyword: 'action_mask',
      value: isKnown(mask) && mask.includes(false) ? list(mask.map(bool)) : none,
      comment: why(project, '/normalize/actionMask'),
    },
    { keyword: 'clip', value: bool(normalize.clip), comment: why(project, '/normalize/clip') },
    ...batches(project),
  ])
}

function datasetCall(project: Project, dataset: PlanDataset, index: number): Py {
  const weighted = project.pipeline.datasets.length > 1
  const holdout = need(dataset.holdout, `/datasets/${index}/holdout`)
  return call(runtime('data', 'Dataset'), [
    { value: str(dataset.name) },
    dataset.root !== null ? { keyword: 'root', value: str(projectPath(project, dataset.root)) } : undefined,
    dataset.repo !== null ? { keyword: 'repo', value: str(dataset.repo) } : undefined,
    dataset.revision !== null ? { keyword: 'revision', value: str(dataset.revision) } : undefined,
    { keyword: 'cameras', value: cameraMap(project, dataset) },
    { keyword: 'state', value: dataset.state === null ? none : str(dataset.state) },
    { keyword: 'action', value: str(dataset.action) },
    weighted ? { keyword: 'weight', value: float(dataset.weight) } : undefined,
    dataset.selected !== null ? { keyword: 'episodes', value: episodes(dataset.selected) } : undefined,
    holdout.length > 0 ? { keyword: 'holdout', value: episodes(holdout) } : undefined,
  ])
}

/** In the order of the model's cameras. */
function cameraMap({ pipeline }: Project, dataset: PlanDataset): Py {
  const order = (camera: string): number => pipeline.model.cameras.indexOf(camera)
  return dict(
    Object.entries(dataset.cameras)
      .sort(([a], [b]) => order(a) - order(b) || (a < b ? -1 : 1))
      .map(([camera, feature]) => [camera, str(feature)]),
  )
}

/** Episode numbers; a run of consecutive ones as a range. */
function episodes(numbers: readonly number[]): Py {
  const first = numbers[0] ?? 0
  const consecutive = numbers.length > 4 && numbers.every((number, index) => number === first + index)
  return consecutive ? py`range(${int(first)}, ${int(first + numbers.length)})` : list(numbers.map(int))
}

function augmentation(augment: NonNullable<Pipeline['augment']>): Py {
  const share = (keyword: string, amount: number | null): Argument | undefined =>
    amount === null || amount === 0 ? undefined : { keyword, value: float(amount) }
  return call(runtime('augment', 'Augmentation'), [
    share('crop', augment.crop),
    share('brightness', augment.brightness),
    share('contrast', augment.contrast),
    share('saturation', augment.saturation),
    share('hue', augment.hue),
  ])
}

/** On the meta device, so that no process ever holds the whole; a policy that begins anew is small, and LeRobot initialises it. */
function buildModel(body: Body, model: Pipeline['model']): void {
  const built = py`model = ${use('model', 'build_model')}()`
  if (model.family === 'lerobot' && model.weights === null) {
    body.line(py`${use('torch')}.manual_seed(SEED)`, 'every process draws the same initial weights')
    body.line(built, 'model.py')
  } else body.block(py`with ${use('torch')}.device("meta"):`, (inner) => inner.line(built, 'model.py'))
  if (model.family !== 'lerobot') return
  body.line(
    py`${runtime('policies.training', 'prepare')}(model, ${use('model', 'POLICY')})`,
    jointTypes.has(model.type)
      ? "model(batch): sums of LeRobot's loss terms; language and expert layers of one depth become one called unit"
      : "model(batch): sums of LeRobot's loss terms",
  )
}

/** Policies whose language model and action expert attend jointly, layer by layer. */
const jointTypes: ReadonlySet<string> = new Set(['pi0', 'pi05', 'smolvla'])

/** Model, adapters, recompute, sharding, weights. */
function build(body: Body, project: Project): void {
  const { pipeline } = project
  const { parallel } = pipeline
  const adapted = pipeline.modules.some((module) => module.adapt !== null)
  buildModel(body, pipeline.model)
  body.line(
    py`partition = ${runtime('partition', 'Partition')}(model, MODULES)`,
    'each parameter in exactly one module, dead ones set aside',
  )
  const sources = weightsOf(project)
  const whole = sources.length === 1 && sources[0]?.part === '' ? sources[0] : undefined
  const audits = sources.map(({ source, revision, part, missing, unexpected }) =>
    call(
      pipeline.model.family === 'lerobot'
        ? runtime('policies.audit', 'PolicyWeights')
        : runtime('weights', 'WeightAudit'),
      [
        { value: str(source) },
        { value: revision === null ? none : str(revision) },
        { value: name('model') },
        part !== '' ? { keyword: 'part', value: str(part) } : undefined,
        missing.length > 0 ? { keyword: 'allow_missing', value: list(missing.map(str)) } : undefined,
        unexpected.length > 0 ? { keyword: 'allow_unexpected', value: list(unexpected.map(str)) } : undefined,
      ],
    ),
  )
  const audited = 'from the headers: every key accounted for, or an error'
  if (whole !== undefined) body.line(py`weights = ${audits[0] ?? none}`, audited)
  else if (audits.length > 0) body.line(py`weights = ${list(audits)}`, audited)
  if (adapted)
    body.line(
      py`adapters = ${runtime('lora', 'adapt')}(model, partition, seed=SEED)`,
      'LoRA, before sharding; the base stays frozen',
    )
  if (pipeline.modules.some((module) => module.recompute === 'full')) {
    body.line(
      py`${runtime('recompute', 'add_recompute')}(model, partition)`,
      'blocks run again in the backward instead of keeping activations',
    )
  }
  const strategy = parallel.kind === 'ddp' ? 'ddp' : parallel.shard
  const reduce = pipeline.modules.some((module) => module.dtype === 'fp64') ? 'float64' : 'float32'
  body.line(
    py`${runtime('sharding', 'shard')}(model, mesh, partition, strategy=${str(strategy)}, reduce=${use('torch')}.${name(reduce)})`,
    strategy === 'ddp'
      ? 'a whole copy on every process; gradients are summed, not averaged'
      : 'one FSDP2 unit per block; gradients are summed, not averaged',
  )
  const read = 'shard by shard; buffers that are not saved are rebuilt'
  const initialise = (loaded: Py | undefined, comment?: string): void => {
    body.line(
      call(runtime('weights', 'initialise'), [
        { value: name('model') },
        { value: name('partition') },
        { keyword: 'seed', value: name('SEED') },
        loaded !== undefined ? { keyword: 'loaded', value: loaded } : undefined,
      ]),
      comment,
    )
  }
  if (whole !== undefined) {
    if (whole.missing.length > 0) initialise(py`[weights]`, 'what the weights do not hold')
    body.line(py`weights.load(model)`, read)
  } else if (audits.length > 0) {
    initialise(py`weights`, 'what the weights do not hold')
    body.block(py`for part in weights:`, (inner) => inner.line(py`part.load(model)`, read))
  } else if (pipeline.model.family !== 'lerobot') {
    initialise(undefined, 'the same for any number of processes')
  }
  if (adapted) body.line(py`adapters.initialise()`)
}

function optimise(body: Body, project: Project): void {
  const { optimizer, schedule } = project.pipeline.training
  const { checkpoint } = project.pipeline
  body.line(
    py`optimizer = ${call(runtime('optim', 'adamw'), [
      { value: name('partition') },
      { keyword: 'betas', value: tuple(optimizer.betas.map(float)) },
      { keyword: 'eps', value: float(optimizer.eps) },
      optimizer.decayBiasAndNorm ? { keyword: 'decay_bias_and_norm', value: bool(true) } : undefined,
    ])}`,
    why(project, '/training/optimizer'),
  )
  body.line(
    py`schedule = ${call(runtime('optim', schedule.kind), [
      { value: name('optimizer') },
      schedule.kind !== 'constant' ? { keyword: 'updates', value: name('UPDATES') } : undefined,
      { keyword: 'warmup', value: int(schedule.warmup) },
      schedule.kind !== 'constant' && schedule.floor > 0
        ? { keyword: 'floor', value: float(schedule.floor) }
        : undefined,
    ])}`,
    why(project, '/training/schedule/warmup') ?? why(project, '/training/schedule'),
  )
  body.line(
    py`checkpoints = ${runtime('checkpoints', 'Checkpoints')}(run, every=${int(checkpoint.every)}, keep=${int(checkpoint.keep)})`,
    why(project, '/checkpoint/every') ?? why(project, '/checkpoint'),
  )
  body.line(py`done = checkpoints.resume(model, optimizer, schedule, data, partition)`, 'updates already made')
}

function loop(body: Body, project: Project): void {
  const { pipeline } = project
  const { clip, validateEvery } = pipeline.training
  const validates =
    validateEvery > 0 &&
    pipeline.datasets.some(({ holdout }) => !isKnown(holdout) || (holdout as readonly number[]).length > 0)
  const phased = pipeline.modules.some((module) => module.freeze.length > 1)
  const sum = runtime('mesh', 'global_sum')
  const terms = pipeline.model.family === 'lerobot'
  body.block(
    py`for update in run.updates(done, UPDATES):`,
    (step) => {
      step.line(
        py`partition.enter_phase(update, optimizer, schedule)`,
        phased ? 'freeze phases change between updates, never inside one' : 'applies the declared learning rates',
      )
      step.line(py`batches = data.next_update(ACCUMULATION)`)
      step.line(
        py`valid = ${sum}(sum(model.valid_count(batch) for batch in batches), mesh)`,
        terms ? 'per term of the loss; padding does not count' : 'padding does not count',
      )
      step.line(py`losses = []`)
      step.block(py`for batch in batches:`, (micro) => {
        micro
          .line(terms ? py`loss = (model(batch) / valid).sum()` : py`loss = model(batch).sum() / valid`)
          .line(py`loss.backward()`)
          .line(py`losses.append(loss.detach())`)
      })
      step.line(
        py`norms = ${runtime('optim', 'clip_gradients')}(partition, ${clip === null ? none : float(clip)})`,
        clip === null ? 'norm per module; nothing is clipped' : 'norm per module, before clipping',
      )
      step.line(py`${use('hooks')}.before_step(update, model, norms)`)
      step.line(py`checkpoints.wait_for_staging()`, 'the asynchronous save has read the weights')
      step.line(py`lrs = schedule.lrs()`).line(py`loss = ${sum}(sum(losses), mesh)`)
      step.block(
        py`if run.all_finite(loss, norms):`,
        (finite) => finite.line(py`optimizer.step()`),
        'otherwise every rank skips, and the run counts it',
      )
      step.line(py`schedule.step()`).line(py`optimizer.zero_grad(set_to_none=True)`)
      if (validates) {
        step.line(py`due = (update + 1) % ${int(validateEvery)} == 0 or update + 1 == UPDATES`)
        step.line(
          py`held_out = {"held_out": ${runtime('data', 'holdout_loss')}(model, data, mesh)} if due else {}`,
          'episodes that are never trained on',
        )
      }
      step.line(
        py`run.log(update, loss=loss, norms=norms, lr=lrs, samples=GLOBAL_BATCH${validates ? py`, **held_out` : py``})`,
      )
      step.line(py`checkpoints.save_if_due(update + 1, model, optimizer, schedule, data, partition)`)
    },
    'ends early on SIGTERM',
  )
}
