/** Optimizer, schedule and learning rates as they effectively were, in the words of this pipeline. */
import type { PolicyFacts, PolicyRecipe } from '../catalog/lerobot/facts.ts'
import type { ReadConfiguration } from './read.ts'
import type { Ledger } from './remarks.ts'
import { Call, type Code } from './write.ts'

const trainSource = 'lerobot/configs/train.py, TrainPipelineConfig.validate'
const schedulerSource = 'lerobot/optim/schedulers.py, CosineDecayWithWarmupSchedulerConfig'

/** What training says, and the options of modules that the recipe asks for. */
export interface ImportedRecipe {
  readonly training: { readonly [key: string]: Code | undefined }
  readonly lr: Readonly<Record<string, number>>
  readonly weightDecay: Readonly<Record<string, number>>
}

/** The optimizer that LeRobot trained with. */
interface Effective {
  readonly kind: 'adam' | 'adamw'
  readonly lr: (module: string) => number
  readonly weightDecay: (module: string) => number
  readonly betas: readonly [number, number]
  readonly eps: number
  readonly clip: number
  readonly schedule: Schedule
}

type Schedule =
  | { readonly kind: 'constant' | 'cosine' | 'linear'; readonly warmup: number; readonly floor: number }
  | { readonly kind: 'cosineThenFloor'; readonly warmup: number; readonly floor: number; readonly decay: number }

/**
 * @param effective - the facts of the policy under LeRobot's whole configuration
 * @param declared - the facts under what the declaration will say, whose recipe fills in what is left out
 */
export function importRecipe(
  config: ReadConfiguration,
  effective: PolicyFacts,
  declared: PolicyFacts,
  ledger: Ledger,
): ImportedRecipe | undefined {
  const { train } = config
  const updates = train.steps
  const optimizer = train.use_policy_training_preset
    ? preset(config, effective.recipe, updates, ledger)
    : own(config, updates, ledger)
  if (optimizer === undefined || isRefused(optimizer, config, effective, ledger)) return undefined

  const names = effective.modules.map(({ name }) => name)
  const recipe = declared.recipe
  const lr = rates(names, optimizer.lr, (name) => recipe.lr * (recipe.lrFactors[name] ?? 1))
  const weightDecay = rates(
    names,
    optimizer.weightDecay,
    (name) => recipe.weightDecay * (recipe.weightDecayFactors[name] ?? 1),
  )
  const decays = names.some((name) => optimizer.weightDecay(name) > 0)
  const adamw = {
    betas: same(optimizer.betas, recipe.betas) ? undefined : [...optimizer.betas],
    eps: optimizer.eps === recipe.eps ? undefined : optimizer.eps,
    decayBiasAndNorm: decays ? true : undefined,
  }
  if (decays)
    ledger.note(
      'changed',
      'optimizer.weight_decay',
      `LeRobot decays biases and norms too; decayBiasAndNorm keeps that. Leave it out to decay the matrices alone.`,
      'lerobot/optim/factory.py, make_optimizer_and_scheduler: one group for all parameters',
    )
  if (optimizer.kind === 'adam')
    ledger.note(
      'differs',
      'optimizer.type',
      decays
        ? 'Adam adds the weight decay to the gradient; AdamW here takes it off the weight.'
        : 'Adam becomes AdamW, which is the same without weight decay.',
      'lerobot/optim/optimizers.py, AdamConfig',
    )
  return {
    training: {
      lr: lr.shared,
      weightDecay: weightDecay.shared,
      optimizer: Object.values(adamw).some((value) => value !== undefined) ? new Call('adamw', adamw) : undefined,
      schedule: schedule(optimizer.schedule, recipe, updates, ledger),
      clip: optimizer.clip <= 0 ? 'none' : optimizer.clip === recipe.clip ? undefined : optimizer.clip,
    },
    lr: lr.own,
    weightDecay: weightDecay.own,
  }
}

/** What torch refuses when the optimizer is made, rates that train nothing, and a rate that rises to its floor. */
function isRefused(
  optimizer: Effective,
  { policy, train }: ReadConfiguration,
  facts: PolicyFacts,
  ledger: Ledger,
): boolean {
  const before = ledger.problems.length
  const isPreset = train.use_policy_training_preset
  const at = (field: string): string => (isPreset ? `policy.optimizer_${field}` : `optimizer.${field}`)
  const require = (is: boolean, field: string, value: number, range: string): void => {
    if (!is) ledger.refuse(field, `It cannot be ${String(value)}.`, `Give a number ${range}.`)
  }
  const rate = optimizer.lr('heads')
  require(rate > 0, at('lr'), rate, 'above 0')
  const scale = policy.said['optimizer_soft_prompt_warmup_lr_scale'] == null ? 'lr_scale' : 'warmup_lr_scale'
  for (const [module, field] of [
    ['vision', 'policy.optimizer_lr_backbone'],
    ['softPrompts', `policy.optimizer_soft_prompt_${scale}`],
  ] as const)
    if (rate > 0 && facts.modules.some(({ name }) => name === module))
      require(optimizer.lr(module) > 0, field, optimizer.lr(module), 'above 0')
  require(optimizer.weightDecay('heads') >= 0, at('weight_decay'), optimizer.weightDecay('heads'), 'from 0 on')
  for (const beta of optimizer.betas) require(beta >= 0 && beta < 1, at('betas'), beta, 'from 0 to below 1')
  require(optimizer.eps >= 0, at('eps'), optimizer.eps, 'from 0 on')
  const { floor } = optimizer.schedule
  if (rate > 0 && (floor < 0 || floor > 1))
    ledger.refuse(
      isPreset ? 'policy.scheduler_decay_lr' : 'scheduler.decay_lr',
      `The rate would ${floor > 1 ? 'rise' : 'fall'} from its peak of ${String(rate)} to ${String(tidy(floor * rate))}.`,
      'Give a number from 0 to the peak.',
    )
  return ledger.problems.length > before
}

/** One rate for all, or each module's own; nothing where the published recipe says the same. */
function rates(
  names: readonly string[],
  wanted: (name: string) => number,
  published: (name: string) => number,
): { shared: number | undefined; own: Record<string, number> } {
  const near = (a: number, b: number): boolean => a === b || Math.abs(a - b) <= 1e-9 * Math.abs(b)
  if (names.every((name) => near(wanted(name), published(name)))) return { shared: undefined, own: {} }
  const counts = new Map<number, number>()
  for (const name of names) counts.set(tidy(wanted(name)), (counts.get(tidy(wanted(name))) ?? 0) + 1)
  const [shared = 0] = [...counts].toSorted((a, b) => b[1] - a[1]).map(([value]) => value)
  const own = names.filter((name) => tidy(wanted(name)) !== shared).map((name) => [name, tidy(wanted(name))] as const)
  return { shared, own: Object.fromEntries(own) }
}

/** Without the noise of a multiplication: 0.1 x 3e-4 is 3e-5. */
function tidy(value: number): number {
  return Number(value.toPrecision(12))
}

/** `use_policy_training_preset`: the policy's own optimizer and scheduler, whatever else was said. */
function preset(
  config: ReadConfiguration,
  recipe: PolicyRecipe,
  updates: number,
  ledger: Ledger,
): Effective | undefined {
  const { optimizer, scheduler, policy } = config
  const replaced = (field: string, said: unknown, used: unknown): void => {
    if (same(said, used)) return
    ledger.note(
      'ignored',
      field,
      `use_policy_training_preset is true: ${JSON.stringify(said)} is replaced by ${JSON.stringify(used)} of the policy's preset.`,
      trainSource,
    )
  }
  if (optimizer !== null) {
    const type = policy.type === 'xvla' ? 'xvla-adamw' : recipe.optimizer
    const used: Readonly<Record<string, unknown>> = {
      lr: recipe.lr,
      weight_decay: recipe.weightDecay,
      grad_clip_norm: recipe.clip,
      betas: recipe.betas,
      eps: recipe.eps,
    }
    replaced('optimizer.type', optimizer.type, type)
    for (const name of optimizer.said)
      if (Object.hasOwn(used, name)) replaced(`optimizer.${name}`, optimizer.values[name], used[name])
  }
  const { schedule: published } = recipe
  if (scheduler !== null) {
    const used: Readonly<Record<string, unknown>> =
      published.kind === 'cosineDecay'
        ? {
            type: 'cosine_decay_with_warmup',
            num_warmup_steps: published.warmup,
            num_decay_steps: published.decay,
            peak_lr: recipe.lr,
            decay_lr: published.floor * recipe.lr,
          }
        : published.kind === 'cosine'
          ? { type: 'diffuser', num_warmup_steps: published.warmup }
          : { type: null }
    replaced('scheduler.type', scheduler.type, used['type'])
    for (const name of scheduler.said)
      if (scheduler.type === used['type'] && Object.hasOwn(used, name))
        replaced(`scheduler.${name}`, round(scheduler.values[name]), round(used[name]))
  }
  const named = policy.said['scheduler_name']
  const made =
    published.kind === 'cosine'
      ? diffuser(typeof named === 'string' ? named : 'cosine', published.warmup, 'policy.scheduler_name', ledger)
      : published.kind === 'constant'
        ? { kind: 'constant' as const, warmup: 0, floor: 1 }
        : cosineDecay(published.warmup, published.decay, published.floor, updates)
  if (made === undefined) return undefined
  const factors = { ...recipe.lrFactors }
  const warmupScale = policy.said['optimizer_soft_prompt_warmup_lr_scale']
  if (typeof warmupScale === 'number') {
    factors['softPrompts'] = warmupScale
    ledger.note(
      'changed',
      'policy.optimizer_soft_prompt_warmup_lr_scale',
      `The soft prompts stay at ${warmupScale} of the learning rate for the whole run: the scheduler multiplies the group's rate and never lifts it to optimizer_soft_prompt_lr_scale. The pipeline keeps what was trained with.`,
      'lerobot/optim/optimizers.py, XVLAAdamWConfig.build',
    )
  }
  return {
    kind: recipe.optimizer,
    lr: (name) => recipe.lr * (factors[name] ?? 1),
    weightDecay: (name) => recipe.weightDecay * (recipe.weightDecayFactors[name] ?? 1),
    betas: recipe.betas,
    eps: recipe.eps,
    clip: recipe.clip,
    schedule: made,
  }
}

/** `use_policy_training_preset: false`: what stands in optimizer and scheduler, for all parameters alike. */
function own(config: ReadConfiguration, updates: number, ledger: Ledger): Effective | undefined {
  const { optimizer, scheduler, policy } = config
  if (optimizer === null || scheduler === null) {
    ledger.refuse(
      'use_policy_training_preset',
      'It is false, so that LeRobot needs both an optimizer and a scheduler, and refuses to start.',
      'Add both, or set it to true.',
    )
    return undefined
  }
  if (optimizer.type !== 'adam' && optimizer.type !== 'adamw') {
    ledger.refuse(
      'optimizer.type',
      optimizer.type === 'xvla-adamw'
        ? 'Without the preset, LeRobot hands it the bare parameters, and it fails on an assertion.'
        : `This pipeline trains with AdamW; '${optimizer.type}' has no counterpart.`,
      "Use 'adamw'.",
    )
    return undefined
  }
  if (policy.type === 'act' || policy.type === 'xvla')
    ledger.note(
      'changed',
      'use_policy_training_preset',
      `Without the preset the parameters are one group: ${policy.type === 'act' ? 'optimizer_lr_backbone has' : 'the tenth of the rate for the vision-language model and optimizer_soft_prompt_lr_scale have'} no effect.`,
      'lerobot/optim/factory.py, make_optimizer_and_scheduler',
    )
  for (const name of Object.keys(policy.said).filter((field) => /^(optimizer|scheduler)_/.test(field)))
    ledger.note(
      'ignored',
      `policy.${name}`,
      'use_policy_training_preset is false: the optimizer and the scheduler of the top level are used.',
      trainSource,
    )
  const {
    lr,
    weight_decay: decay,
    grad_clip_norm: clip,
    betas,
    eps,
  } = optimizer.values as {
    lr: number
    weight_decay: number
    grad_clip_norm: number
    betas: readonly [number, number]
    eps: number
  }
  const made = ownSchedule(scheduler.type, scheduler.values, updates, ledger)
  return made && { kind: optimizer.type, lr: () => lr, weightDecay: () => decay, betas, eps, clip, schedule: made }
}

function ownSchedule(
  type: string,
  values: Readonly<Record<string, unknown>>,
  updates: number,
  ledger: Ledger,
): Schedule | undefined {
  const warmup = typeof values['num_warmup_steps'] === 'number' ? values['num_warmup_steps'] : 0
  if (type === 'diffuser') return diffuser(String(values['name']), warmup, 'scheduler.name', ledger)
  if (type === 'constant_with_warmup') return { kind: 'constant', warmup, floor: 1 }
  if (type === 'cosine_annealing_with_warmup') return { kind: 'cosine', warmup, floor: 0 }
  const { num_decay_steps: decay, peak_lr: peak, decay_lr: end } = values
  if (
    type === 'cosine_decay_with_warmup' &&
    typeof decay === 'number' &&
    typeof peak === 'number' &&
    typeof end === 'number'
  )
    return cosineDecay(warmup, decay, end / peak, updates)
  ledger.refuse(
    'scheduler.type',
    type === 'cosine_decay_with_warmup'
      ? 'It needs num_warmup_steps, num_decay_steps, peak_lr and decay_lr.'
      : `'${type}' has no counterpart.`,
    "Use 'cosine_annealing_with_warmup', 'cosine_decay_with_warmup', 'constant_with_warmup' or 'diffuser'.",
  )
  return undefined
}

/** One of diffusers' schedules by name. */
function diffuser(name: string, warmup: number, field: string, ledger: Ledger): Schedule | undefined {
  if (name === 'cosine') return { kind: 'cosine', warmup, floor: 0 }
  if (name === 'linear') return { kind: 'linear', warmup, floor: 0 }
  if (name === 'constant') return { kind: 'constant', warmup: 0, floor: 1 }
  if (name === 'constant_with_warmup') return { kind: 'constant', warmup, floor: 1 }
  ledger.refuse(
    field,
    `diffusers' schedule '${name}' has no counterpart.`,
    "Use 'cosine', 'linear' or 'constant_with_warmup'.",
  )
  return undefined
}

/** Shorter runs scale both lengths, as LeRobot does; longer ones stay at the floor. */
function cosineDecay(warmup: number, decay: number, floor: number, updates: number): Schedule {
  if (updates < decay) return { kind: 'cosine', warmup: Math.trunc(warmup * (updates / decay)), floor: tidy(floor) }
  if (updates === decay) return { kind: 'cosine', warmup, floor: tidy(floor) }
  return { kind: 'cosineThenFloor', warmup, floor: tidy(floor), decay }
}

/** The schedule, or nothing where the policy's published one comes to the same. */
function schedule(wanted: Schedule, recipe: PolicyRecipe, updates: number, ledger: Ledger): Code | undefined {
  const usual = published(recipe, updates)
  const { floor } = wanted
  let { warmup } = wanted
  if (warmup >= updates) {
    const shortened = Math.floor(updates / 2)
    ledger.note(
      'differs',
      'scheduler.num_warmup_steps',
      `The run of ${String(updates)} steps ends within its warm-up of ${String(warmup)}, at ${(updates / warmup).toPrecision(2)} of the learning rate. Here the warm-up is half the run.`,
      'lerobot/optim/schedulers.py',
    )
    warmup = shortened
  }
  if (wanted.kind === 'cosineThenFloor') {
    ledger.note(
      'changed',
      'policy.scheduler_decay_steps',
      `The learning rate reaches its floor at step ${String(wanted.decay)} and stays there: the last ${String(updates - wanted.decay)} of ${String(updates)} steps train at ${String(floor)} of the peak. Here the cosine spans the whole run; with updates: ${String(wanted.decay)} it ends where LeRobot's does.`,
      schedulerSource,
    )
  } else if (recipe.schedule.kind === 'cosineDecay' && updates < recipe.schedule.decay && wanted.kind === 'cosine') {
    ledger.note(
      'changed',
      'policy.scheduler_decay_steps',
      `The run is shorter than the schedule: LeRobot scales warm-up and decay to ${String(warmup)} and ${String(updates)} steps. The pipeline keeps that.`,
      schedulerSource,
    )
  }
  if (wanted.kind === 'cosineThenFloor' || (wanted.kind === 'cosine' && recipe.schedule.kind === 'cosineDecay'))
    ledger.note(
      'differs',
      'scheduler',
      "LeRobot's cosine counts from step 0, so that the rate drops when the warm-up ends; here it starts at the peak behind the warm-up.",
      schedulerSource,
    )
  const kind = wanted.kind === 'cosineThenFloor' ? 'cosine' : wanted.kind
  if (usual.kind === kind && usual.warmup === warmup && (kind === 'constant' || Math.abs(usual.floor - floor) < 1e-9))
    return undefined
  const options = {
    warmup: warmup === 0 ? undefined : warmup,
    floor: kind === 'constant' || floor === 0 ? undefined : floor,
  }
  const none = options.warmup === undefined && options.floor === undefined
  const names = { cosine: 'cosine', linear: 'linearDecay', constant: 'constant' } as const
  return none ? new Call(names[kind]) : new Call(names[kind], options)
}

/** What the plan takes where no schedule is declared. */
function published(
  { schedule: of }: PolicyRecipe,
  updates: number,
): { kind: 'constant' | 'cosine'; warmup: number; floor: number } {
  if (of.kind === 'constant') return { kind: 'constant', warmup: 0, floor: 1 }
  if (of.kind === 'cosine') return { kind: 'cosine', warmup: Math.min(of.warmup, Math.floor(updates / 2)), floor: 0 }
  return { kind: 'cosine', warmup: Math.min(of.warmup, Math.floor((of.warmup * updates) / of.decay)), floor: of.floor }
}

function round(value: unknown): unknown {
  return typeof value === 'number' ? tidy(value) : value
}

/** Whether two JSON values are the same. */
export function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const [left, right] = [Object.entries(a), Object.entries(b)]
  return (
    left.length === right.length &&
    left.every(([key, value]) => Object.hasOwn(b, key) && same(value, (b as Record<string, unknown>)[key]))
  )
}
