/** What a run needs besides model, data and modules: hardware, parallelism, training, checkpoints, tracking, evaluation, exports. */
import { findGpu } from '../catalog/gpus.ts'
import type { PolicyRecipe } from '../catalog/lerobot/facts.ts'
import type { Duration } from '../declare/common.ts'
import { isPolicy } from '../declare/model.ts'
import type { Declaration } from '../declare/pipeline.ts'
import type { Lock } from '../lock/lock.ts'
import { isKnown, type Pipeline, type PlanDataset, type PlanModel, type Unknown } from '../plan/plan.ts'
import { grouped, toUpdates } from './duration.ts'
import { below } from './below.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'
import { policyModes, policyRecipe } from './policy.ts'

/** GPUs or CPU processes. A GPU that the catalog lacks has unknown memory (VLA005 says so). */
export function resolveHardware({ hardware }: Declaration, book: Notebook): Pipeline['hardware'] {
  const at = below(book, ['hardware'], ['hardware'])
  at.declared('kind')
  if (hardware.kind === 'cpus') {
    at.declared('processes')
    at.take('nodes', derived(1, 'CPU processes run on this machine.'))
    return { kind: 'cpus', processes: hardware.processes, nodes: 1 }
  }
  const known = findGpu(hardware.gpu)
  at.declared('gpu')
  if (known !== undefined) book.note(['hardware', 'memoryBytes'], ['hardware', 'gpu'], 'catalog', known.source)
  else
    book.note(['hardware', 'memoryBytes'], ['hardware', 'gpu'], 'catalog', `The catalog has no GPU '${hardware.gpu}'.`)
  return {
    kind: 'gpus',
    gpu: hardware.gpu,
    perNode: at.choose('perNode', hardware.perNode, () => byDefault(1, 'One GPU.')),
    nodes: at.choose('nodes', hardware.nodes, () => byDefault(1, 'One node.')),
    memoryBytes: known?.memoryBytes ?? unknown('VLA005'),
    hostMemoryBytes: at.choose<number | null>(
      'hostMemoryBytes',
      hardware.hostMemory,
      () => byDefault(null, 'Not declared.'),
      'hostMemory',
    ),
    network: at.choose<string | null>('network', hardware.network, () => byDefault(null, 'Not declared.')),
  }
}

/** FSDP2 or DDP over all processes. */
export function resolveParallel(
  { parallel }: Declaration,
  hardware: Pipeline['hardware'],
  book: Notebook,
): Pipeline['parallel'] {
  const at = below(book, ['parallel'], ['parallel'])
  const [world, working] =
    hardware.kind === 'cpus'
      ? [hardware.processes, `${String(hardware.processes)} processes.`]
      : [hardware.nodes * hardware.perNode, `${String(hardware.nodes)} x ${String(hardware.perNode)} GPUs.`]
  book.note(['parallel', 'world'], ['hardware'], 'derived', working)
  if (parallel === undefined) {
    const reason =
      'Shards parameters, gradients and optimizer states over all processes; survives every freeze schedule.'
    book.note(['parallel', 'kind'], ['parallel'], 'default', reason)
    book.note(['parallel', 'shard'], ['parallel'], 'default', 'The least memory.')
    return { kind: 'fsdp2', shard: 'full', world }
  }
  at.declared('kind')
  if (parallel.kind === 'ddp') return { kind: 'ddp', world }
  return {
    kind: 'fsdp2',
    shard: at.choose('shard', parallel.shard, () => byDefault('full', 'The least memory.')),
    world,
  }
}

/** The recipe. */
export function resolveTraining(
  { training }: Declaration,
  model: PlanModel,
  world: number,
  datasets: readonly PlanDataset[],
  book: Notebook,
): Pipeline['training'] {
  const at = below(book, ['training'], ['training'])
  const { updates, globalBatch, microBatch } = training
  const recipe = model.family === 'lerobot' ? policyRecipe(model) : undefined
  for (const field of ['updates', 'globalBatch', 'microBatch']) at.declared(field)
  return {
    updates,
    globalBatch,
    microBatch,
    accumulation: accumulation(globalBatch, microBatch, world, book),
    optimizer: resolveOptimizer(training.optimizer, recipe, book),
    schedule: resolveSchedule(training.schedule, recipe, updates, book),
    clip: at.choose('clip', training.clip === 'none' ? null : training.clip, () =>
      recipe === undefined
        ? byDefault(1, 'The norm that OpenVLA, OpenVLA-OFT and openpi clip to.')
        : { value: recipe.clip, from: 'recipe', reason: recipe.source },
    ),
    seed: at.choose('seed', training.seed, () => byDefault(0, 'The default seed.')),
    skipNonFinite: at.choose('skipNonFinite', training.skipNonFinite, () =>
      byDefault(10, 'Stops a run that has diverged.'),
    ),
    validateEvery: validateEvery(training.validateEvery, updates, datasets, book),
  }
}

function accumulation(
  globalBatch: number,
  microBatch: number,
  world: number,
  book: Notebook,
): Pipeline['training']['accumulation'] {
  const place = ['training', 'accumulation']
  const path = ['training', 'globalBatch']
  const steps = globalBatch / (microBatch * world)
  const sum = `${grouped(globalBatch)} / (${grouped(microBatch)} x ${grouped(world)})`
  if (Number.isInteger(steps))
    return book.take(place, path, derived(steps, `globalBatch / (microBatch x processes) = ${sum}.`))
  book.note(place, path, 'derived', `globalBatch / (microBatch x processes) = ${sum} is not a whole number.`)
  return unknown('VLA201')
}

function resolveOptimizer(
  optimizer: Declaration['training']['optimizer'],
  recipe: PolicyRecipe | undefined,
  book: Notebook,
): Pipeline['training']['optimizer'] {
  const at = below(book, ['training', 'optimizer'], ['training', 'optimizer'])
  book.note(
    ['training', 'optimizer'],
    ['training', 'optimizer'],
    optimizer === undefined ? 'default' : 'declared',
    optimizer === undefined ? 'AdamW, as every published VLA recipe.' : 'As declared.',
  )
  const published = <T>(value: T, otherwise: T): Choice<T> =>
    recipe === undefined ? byDefault(otherwise, 'torch.optim.AdamW.') : { value, from: 'recipe', reason: recipe.source }
  const betas = at.choose('betas', optimizer?.betas, () =>
    published<readonly [number, number]>(recipe?.betas ?? [0.9, 0.999], [0.9, 0.999]),
  )
  return {
    kind: 'adamw',
    betas: [betas[0], betas[1]],
    eps: at.choose('eps', optimizer?.eps, () => published(recipe?.eps ?? 1e-8, 1e-8)),
    decayBiasAndNorm: at.choose('decayBiasAndNorm', optimizer?.decayBiasAndNorm, () =>
      byDefault(false, 'Biases and norms are not decayed.'),
    ),
  }
}

function resolveSchedule(
  schedule: Declaration['training']['schedule'],
  recipe: PolicyRecipe | undefined,
  updates: number,
  book: Notebook,
): Pipeline['training']['schedule'] {
  const path = ['training', 'schedule']
  const at = below(book, path, path)
  if (schedule === undefined && recipe !== undefined) return publishedSchedule(recipe, updates, book)
  if (schedule === undefined) {
    book.note([...path, 'kind'], path, 'default', 'Constant, as OpenVLA was trained.')
    book.note([...path, 'warmup'], path, 'default', 'No warm-up.')
    return { kind: 'constant', warmup: 0 }
  }
  at.declared('kind')
  const warmup = at.updates('warmup', schedule.warmup, updates, () => byDefault(0, 'No warm-up.'))
  if (schedule.kind === 'constant') return { kind: 'constant', warmup }
  const floor = at.choose('floor', schedule.floor, () => byDefault(0, 'Down to zero.'))
  return schedule.kind === 'cosine' ? { kind: 'cosine', warmup, floor } : { kind: 'linear', warmup, floor }
}

/** LeRobot's schedule of a policy, stretched over this run: its own is counted in updates of the published one. */
function publishedSchedule(
  { schedule, source }: PolicyRecipe,
  updates: number,
  book: Notebook,
): Pipeline['training']['schedule'] {
  const path = ['training', 'schedule']
  book.note([...path, 'kind'], path, 'recipe', source)
  const warmup =
    schedule.kind === 'constant'
      ? 0
      : schedule.kind === 'cosine'
        ? Math.min(schedule.warmup, Math.floor(updates / 2))
        : Math.min(schedule.warmup, Math.floor((schedule.warmup * updates) / schedule.decay))
  book.note([...path, 'warmup'], path, 'recipe', source)
  if (schedule.kind === 'constant') return { kind: 'constant', warmup }
  const floor = schedule.kind === 'cosineDecay' ? schedule.floor : 0
  book.note([...path, 'floor'], path, 'recipe', source)
  return { kind: 'cosine', warmup, floor }
}

function validateEvery(
  declared: Duration | undefined,
  updates: number,
  datasets: readonly PlanDataset[],
  book: Notebook,
): number {
  const at = below(book, ['training'], ['training'])
  const held = datasets.some(({ holdout }) => !isKnown(holdout) || holdout.length > 0)
  const every = at.updates('validateEvery', declared, updates, () =>
    held
      ? byDefault(toUpdates('5%', updates), `5% of ${grouped(updates)} updates, since episodes are held out.`)
      : byDefault(0, 'No episodes are held out.'),
  )
  return declared === undefined && !held ? 0 : Math.max(1, every)
}

/** When the run is saved. */
export function resolveCheckpoint(
  { checkpoint, training: { updates } }: Declaration,
  book: Notebook,
): Pipeline['checkpoint'] {
  const at = below(book, ['checkpoint'], ['checkpoint'])
  const every = at.updates('every', checkpoint?.every, updates, () =>
    byDefault(toUpdates('10%', updates), `10% of ${grouped(updates)} updates: what an interruption can lose.`),
  )
  return {
    every: Math.max(1, every),
    keep: at.choose('keep', checkpoint?.keep, () => byDefault(3, 'The three newest.')),
  }
}

/** Where metrics go; JSON lines always. */
export function resolveTrack({ track }: Declaration, book: Notebook): Pipeline['track'] {
  const declared = track ?? []
  const has = declared.some(({ kind }) => kind === 'jsonl')
  book.note(
    ['track'],
    ['track'],
    track === undefined ? 'default' : 'declared',
    has ? 'As declared.' : 'JSON lines are always written.',
  )
  const trackers = declared.map((tracker): Pipeline['track'][number] =>
    tracker.kind === 'wandb'
      ? { kind: 'wandb', project: tracker.project, entity: tracker.entity ?? null }
      : { kind: tracker.kind },
  )
  return has ? trackers : [...trackers, { kind: 'jsonl' }]
}

/** Rollouts. */
export function resolveEvaluate(
  { evaluate }: Declaration,
  chunk: number | Unknown,
  book: Notebook,
): Pipeline['evaluate'] {
  if (evaluate === undefined) {
    book.note(['evaluate'], ['evaluate'], 'default', 'No simulator is declared.')
    return null
  }
  const at = below(book, ['evaluate'], ['evaluate'])
  at.declared('env')
  at.declared('tasks')
  return {
    env: evaluate.env,
    tasks: [...evaluate.tasks],
    episodes: at.choose('episodes', evaluate.episodes, () => byDefault(20, 'Twenty episodes tell 50 % from 80 %.')),
    maxSteps: at.choose('maxSteps', evaluate.maxSteps, () => byDefault(500, "LeRobot's horizon.")),
    imageSize: at.choose('imageSize', evaluate.imageSize, () => byDefault(480, "LeRobot's own rendering.")),
    firstSeed: at.choose('firstSeed', evaluate.firstSeed, () =>
      byDefault(10_000, 'Far from the seeds that recorders use.'),
    ),
    actionSteps: at.choose('actionSteps', evaluate.actionSteps, () =>
      byDefault(isKnown(chunk) ? chunk : 1, 'The whole chunk.'),
    ),
  }
}

/** Packages. */
export function resolveExports(declaration: Declaration, book: Notebook): Pipeline['exports'] {
  const declared = declaration.export
  book.note(
    ['exports'],
    ['export'],
    declared === undefined ? 'default' : 'declared',
    declared === undefined ? 'No package is declared.' : 'As declared.',
  )
  return (declared ?? []).map(({ kind, dtype }, index) => ({
    kind,
    dtype: below(book, ['exports', index], ['export', index]).choose('dtype', dtype, () =>
      byDefault('fp32', 'The masters, unrounded.'),
    ),
  }))
}

/** How the run is started. */
export function resolveLaunch({ launch }: Declaration, book: Notebook): Pipeline['launch'] {
  if (launch === undefined) {
    book.note(['launch'], ['launch'], 'default', 'torchrun on one node.')
    return [{ kind: 'torchrun' }]
  }
  book.note(['launch'], ['launch'], 'declared', 'As declared.')
  return launch.map((entry, index) => {
    if (entry.kind === 'torchrun') return { kind: 'torchrun' }
    const at = below(book, ['launch', index], ['launch', index])
    return {
      kind: 'slurm',
      partition: entry.partition,
      time: entry.time,
      account: at.choose<string | null>('account', entry.account, () => byDefault(null, 'Not declared.')),
      requeue: at.choose('requeue', entry.requeue, () =>
        byDefault(true, 'A preempted job goes back into the queue and resumes.'),
      ),
      setup: at.choose('setup', entry.setup, () => byDefault([], 'Nothing before the launch.')).slice(),
    }
  })
}

/** Normalisation. OpenVLA's family: quantiles, clipped, the last action dimension (the gripper) as it is. */
export function resolveNormalize(
  { normalize, model: declared }: Declaration,
  model: PlanModel,
  lock: Lock | undefined,
  book: Notebook,
): Pipeline['normalize'] {
  const at = below(book, ['normalize'], ['normalize'])
  const openvla = model.family === 'openvla'
  const { actionDim } = model
  const policy = model.family === 'lerobot' && isPolicy(declared) ? policyModes(declared, model, lock) : undefined
  const recipe = <T>(value: T, reason: string): Choice<T> => ({ value, from: 'recipe', reason })
  const action = at.choose('action', normalize?.action, () =>
    openvla
      ? recipe('quantiles', 'OpenVLA: q01 and q99 to [-1, 1].')
      : policy !== undefined
        ? recipe(policy.action, policy.from)
        : byDefault('minMax', 'To [-1, 1] by the extremes.'),
  )
  return {
    state: at.choose('state', normalize?.state, () =>
      openvla
        ? recipe('quantiles', 'OpenVLA-OFT normalises proprioception as actions.')
        : policy !== undefined
          ? recipe(policy.state, policy.from)
          : byDefault('meanStd', 'Zero mean, unit variance.'),
    ),
    action,
    constant: at.choose('constant', normalize?.constant, () =>
      byDefault('refuse', 'A dimension that never moves is more often a mistake of the recording than meant.'),
    ),
    actionMask: isKnown(actionDim)
      ? at
          .choose('actionMask', normalize?.actionMask, () =>
            openvla
              ? recipe(
                  Array.from({ length: actionDim }, (_, dimension) => dimension < actionDim - 1),
                  'OpenVLA: the gripper is not normalised.',
                )
              : byDefault(
                  Array.from({ length: actionDim }, () => true),
                  'Every dimension is normalised.',
                ),
          )
          .slice()
      : at.choose<Pipeline['normalize']['actionMask']>('actionMask', normalize?.actionMask?.slice(), () =>
          derived(unknown(actionDim.because), 'The width of the actions is not known.'),
        ),
    clip: at.choose('clip', normalize?.clip, () =>
      action === 'quantiles' && model.family !== 'lerobot'
        ? byDefault(true, 'What lies outside the quantiles is clipped to [-1, 1], as OpenVLA does.')
        : byDefault(false, 'Nothing lies outside, or what does is meant.'),
    ),
  }
}

/** Image augmentation. */
export function resolveAugment({ augment }: Declaration, book: Notebook): Pipeline['augment'] {
  if (augment === undefined) {
    book.note(['augment'], ['augment'], 'default', 'No augmentation is declared.')
    return null
  }
  const at = below(book, ['augment'], ['augment'])
  const off = (): Choice<number> => byDefault(0, 'Not declared.')
  return {
    crop: at.choose<number | null>('crop', augment.crop, () => byDefault(null, 'Not declared.')),
    brightness: at.choose('brightness', augment.brightness, off),
    contrast: at.choose('contrast', augment.contrast, off),
    saturation: at.choose('saturation', augment.saturation, off),
    hue: at.choose('hue', augment.hue, off),
  }
}

/** Processes that read data, per rank. */
export function resolveLoader({ loader, hardware }: Declaration, book: Notebook): Pipeline['loader'] {
  const at = below(book, ['loader'], ['loader'])
  return {
    workers: at.choose('workers', loader?.workers, () =>
      hardware.kind === 'cpus'
        ? byDefault(0, 'On CPUs a reader process would take time from the training processes.')
        : byDefault(4, 'Decoding keeps pace with one GPU.'),
    ),
  }
}

/** Rules that are switched off, in the order of their ids. */
export function resolveSuppressed({ rules }: Declaration, book: Notebook): Pipeline['suppressed'] {
  book.note(
    ['suppressed'],
    ['rules'],
    rules === undefined ? 'default' : 'declared',
    rules === undefined ? 'Every rule is on.' : 'As declared.',
  )
  return Object.entries(rules ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([rule, { reason }], index) => {
      book.note(['suppressed', index], ['rules', rule], 'declared', 'As declared.')
      return { rule, reason }
    })
}
