/** lerobot-train's configuration becomes a pipeline.ts, with a list of what LeRobot ignored or silently changed. */
import { findGpu } from '../catalog/gpus.ts'
import type { PolicyFacts } from '../catalog/lerobot/facts.ts'
import type { NormalizationMode } from '../catalog/lerobot/fields.ts'
import { findPolicy, type PolicyFamily } from '../catalog/lerobot/index.ts'
import { findLoop } from '../catalog/lerobot/loop.ts'
import { metaworldTasks } from '../catalog/metaworld.ts'
import { likelyGpu } from '../declare/names.ts'
import type { ImageNormalization } from '../declare/normalize.ts'
import { suggest } from '../declare/suggest.ts'
import { importAdapters } from './adapters.ts'
import { importCameras, type CameraSources } from './cameras.ts'
import type { Nested } from './flags.ts'
import { readConfiguration, type ReadConfiguration, type ReadPolicy } from './read.ts'
import { importRecipe, same } from './recipe.ts'
import { Ledger, remarkText, sorted, type ImportProblem, type Remark } from './remarks.ts'
import { Call, commentLines, pipelineFile, type Code } from './write.ts'

/** What the configuration does not say, or says of a machine. */
export interface Surroundings extends CameraSources {
  /** Where the configuration comes from, for the head of the file: 'train_config.json', 'the flags of lerobot-train'. */
  readonly from: string
  /** Processes that trained it; undefined: not known. */
  readonly processes: number | undefined
  /** Machines that they ran on; undefined: not known. */
  readonly nodes: number | undefined
  /** `--mixed_precision` of accelerate's launcher; undefined: not said. */
  readonly mixedPrecision: string | undefined
  /** Name of the GPU in the catalog; undefined: not known. */
  readonly gpu: string | undefined
  /** config.json of the pretrained policy, where it is at hand. */
  readonly pretrained: Readonly<Record<string, unknown>> | undefined
  /** A path of the configuration as pipeline.ts has to write it. */
  readonly relocate: (path: string) => string
  /** The same for weights, which may be a hub id: that stays. */
  readonly relocateWeights: (source: string) => string
}

export interface Imported {
  /** The pipeline.ts; undefined where something is in the way. */
  readonly text: string | undefined
  readonly remarks: readonly Remark[]
  readonly problems: readonly ImportProblem[]
}

const trainer = 'lerobot/scripts/lerobot_train.py'
const assumedGpu = 'A100-SXM-80GB'

/**
 * Imports a configuration.
 *
 * @param config - as the file has it, or as `readFlags` made it, with the pretrained policy's config.json below what was said
 */
export function importLerobot(config: Nested, surroundings: Surroundings, ledger = new Ledger()): Imported {
  const read = readConfiguration(config, ledger)
  const text = read === undefined ? undefined : translate(read, surroundings, ledger)
  const remarks = sorted(ledger.remarks)
  return { text: ledger.problems.length > 0 ? undefined : text, remarks, problems: ledger.problems }
}

function translate(config: ReadConfiguration, around: Surroundings, ledger: Ledger): string | undefined {
  const { policy, train } = config
  const family = findPolicy(policy.type)
  if (family === undefined) return undefined
  const pretrained = typeof policy.said['pretrained_path'] === 'string' ? policy.said['pretrained_path'] : undefined
  const seen = importCameras(config, pretrained !== undefined, around, ledger)
  if (seen === undefined) return undefined
  const options = modelOptions(policy, family, seen, pretrained, around, ledger)

  const describe = (values: Readonly<Record<string, unknown>>): PolicyFacts =>
    family.describe({
      config: values,
      cameras: seen.cameras,
      imageSizes: { unknown: true },
      stateDim: seen.state ? { unknown: true } : 0,
      actionDim: { unknown: true },
    })
  const effective = describe(whole(policy, around.pretrained))
  // What a pretrained policy says that is not at hand, nobody can judge.
  const open = pretrained !== undefined && around.pretrained === undefined
  for (const { field, message } of effective.problems)
    if (!open || Object.hasOwn(policy.said, field))
      ledger.refuse(`policy.${field}`, message, 'LeRobot refuses it too, or fails on it; change it.')
  const declared = describe(options.effectiveConfig)
  if (ledger.problems.length > 0) return undefined

  const processes = around.processes ?? 1
  if (around.processes === undefined)
    ledger.assume(
      'processes',
      'The configuration does not say how many processes trained: one. Say it with --processes.',
    )
  const hardware = importHardware(policy, processes, around, ledger)
  const precision = importPrecision(config, hardware, around.mixedPrecision, ledger)
  const loadedInBf16 = policy.type === 'smolvla' && policy.said['load_vlm_weights'] === true
  const recipe = importRecipe(config, effective, declared, ledger)
  const normalize = importNormalization(effective, declared, ledger)
  const images = importImages(effective, declared, config.dataset.use_imagenet_stats, ledger)
  const adapters = config.peft === null ? undefined : importAdapters(config.peft, policy, effective, pretrained, ledger)
  noteTraining(config, processes, pretrained, effective, ledger)
  if (recipe === undefined || (config.peft !== null && adapters === undefined)) return undefined

  const modules = effective.modules.map(({ name, frozen, frozenParts, blocks }): [string, Code | undefined] => {
    const published = declared.modules.find((module) => module.name === name)
    const recompute = policy.said['gradient_checkpointing'] === true && blocks.length > 0 && name !== 'vision'
    const adapter = adapters?.[name]
    const asleep = adapters !== undefined ? adapter === undefined : frozen
    if (frozenParts.length > 0 && !asleep && !same(frozenParts, published?.frozenParts))
      ledger.note(
        'differs',
        `policy.train_expert_only`,
        `LeRobot also freezes ${frozenParts.join(', ')} of module '${name}'; here a module trains or is frozen as a whole, and what reaches no loss is left alone.`,
        `lerobot/policies/${policy.type}`,
      )
    const freeze = asleep === (published?.frozen ?? false) ? undefined : asleep ? 'always' : 'never'
    const changes = {
      lr: asleep ? undefined : recipe.lr[name],
      weightDecay: asleep ? undefined : recipe.weightDecay[name],
      dtype: loadedInBf16 && inBase.has(name) ? (hardware.cpu ? 'bf16' : undefined) : precision,
      recompute: recompute ? 'full' : undefined,
      // Adapters wake a module that LeRobot freezes by default.
      freeze: adapter === undefined ? freeze : undefined,
      adapt: adapter,
    } satisfies Record<string, Code | undefined>
    return [name, Object.values(changes).some((value) => value !== undefined) ? changes : undefined]
  })

  const holdout = config.dataset.eval_split > 0 ? `${String(tidy(config.dataset.eval_split * 100))}%` : undefined
  const said = { ...options.said, images }
  const declaration = {
    name: pipelineName(config),
    model: new Call(policy.type, ...(Object.values(said).some((value) => value !== undefined) ? [said] : [])),
    data: new Call('lerobotDataset', {
      repo: config.dataset.repo_id,
      root: config.dataset.root === null ? undefined : around.relocate(config.dataset.root),
      revision: config.dataset.revision ?? undefined,
      episodes: config.dataset.episodes ?? undefined,
      holdout,
      state: seen.stateFeature === 'observation.state' ? undefined : seen.stateFeature,
    }),
    cameras: seen.map,
    normalize,
    augment: importAugmentation(config, ledger),
    loader: importLoader(config, hardware.cpu),
    hardware: hardware.code,
    modules: modules.some(([, value]) => value !== undefined) ? Object.fromEntries(modules) : undefined,
    training: {
      updates: train.steps,
      globalBatch: train.batch_size * processes,
      microBatch: train.batch_size,
      ...recipe.training,
      seed: importSeed(config, ledger),
      validateEvery:
        holdout !== undefined && train.eval_steps > 0 ? Math.min(train.eval_steps, train.steps) : undefined,
    },
    checkpoint: importCheckpoint(config, ledger),
    track: config.wandb.enable
      ? [new Call('wandb', { project: config.wandb.project, entity: config.wandb.entity ?? undefined })]
      : undefined,
    evaluate: importEvaluation(config, policy, ledger),
    export: [new Call('lerobot')],
  } satisfies { readonly [key: string]: Code | undefined }
  if (ledger.problems.length > 0) return undefined
  return pipelineFile(head(around.from, ledger), declaration)
}

/** Modules of SmolVLA that belong to the vision-language model, which LeRobot loads in bf16. */
const inBase: ReadonlySet<string> = new Set(['vision', 'projector', 'language'])

/** The head of the file: where it comes from, and the list. */
function head(from: string, ledger: Ledger): string[] {
  const remarks = sorted(ledger.remarks)
  const lines = commentLines(`Imported from ${from} of lerobot-train (LeRobot 0.6.1).`)
  if (remarks.length === 0) return lines
  lines.push(
    '//',
    ...commentLines('What LeRobot ignored or changed without a word, what is otherwise here, what was assumed:'),
  )
  for (const remark of remarks) lines.push(...commentLines(`- ${remarkText(remark)}`, '  '))
  return lines
}

interface ModelOptions {
  /** Options of the constructor. */
  readonly said: { readonly [key: string]: Code | undefined }
  /** The configuration that the plan will see: what the constructor says over what the pretrained policy has. */
  readonly effectiveConfig: Readonly<Record<string, unknown>>
}

function modelOptions(
  policy: ReadPolicy,
  family: PolicyFamily,
  seen: NonNullable<ReturnType<typeof importCameras>>,
  pretrained: string | undefined,
  around: Surroundings,
  ledger: Ledger,
): ModelOptions {
  const { type, said } = policy
  const loop = findLoop(type)
  const chunkField = loop?.chunkField ?? 'chunk_size'
  const base = pretrained === undefined ? {} : (around.pretrained ?? {})
  const usual = (name: string): unknown => (Object.hasOwn(base, name) ? base[name] : family.fields[name]?.default)
  const config: Record<string, Code> = {}
  let chunk: number | undefined
  for (const name of Object.keys(family.fields)) {
    if (!Object.hasOwn(said, name) || same(said[name], usual(name))) continue
    if (name === chunkField) chunk = said[name] as number
    else config[name] = said[name] as Code
  }
  // What the chunk brings with it, and what LeRobot works out itself and writes into its configuration.
  const steps = usual('n_action_steps')
  if (chunk !== undefined && typeof steps === 'number') {
    if (Object.hasOwn(said, 'n_action_steps') && said['n_action_steps'] === Math.min(steps, chunk))
      delete config['n_action_steps']
    else if (said['n_action_steps'] === steps && steps > chunk) config['n_action_steps'] = steps
  }
  if ((said['resize_shape'] ?? null) !== null) delete config['crop_shape']
  const views = seen.cameras.length + (typeof said['empty_cameras'] === 'number' ? said['empty_cameras'] : 0)
  if (config['num_image_views'] === views && !Object.hasOwn(base, 'num_image_views')) delete config['num_image_views']

  const batchNorm = importBatchNorm(policy, family, config, pretrained, ledger)
  const weights = pretrained === undefined ? undefined : around.relocateWeights(pretrained)
  if (pretrained !== undefined && around.pretrained === undefined)
    ledger.assume(
      'policy.pretrained_path',
      `${pretrained} is not on this machine: fields that have LeRobot's default are left out, so that those of the pretrained policy's config.json hold.`,
    )
  const revision = said['pretrained_revision']
  const published = same(seen.cameras, loop?.cameras)
  const options = {
    weights,
    revision: typeof revision === 'string' ? revision : undefined,
    cameras: published ? undefined : seen.cameras,
    state: seen.state ? undefined : false,
    chunk,
    batchNorm,
    config: Object.keys(config).length === 0 ? undefined : config,
  } satisfies { readonly [key: string]: Code | undefined }
  const loaded = Object.fromEntries(
    Object.entries(base).filter(([name]) => Object.hasOwn(family.fields, name) || name === 'type'),
  )
  return {
    said: options,
    effectiveConfig: { ...loaded, ...config, ...(chunk === undefined ? {} : { [chunkField]: chunk }) },
  }
}

/** A BatchNorm that learns its statistics from each process's micro-batch is refused here. */
function importBatchNorm(
  { type, said }: ReadPolicy,
  family: PolicyFamily,
  config: Record<string, Code>,
  pretrained: string | undefined,
  ledger: Ledger,
): 'frozen' | undefined {
  const facts = family.describe({
    config: said,
    cameras: ['any'],
    imageSizes: { unknown: true },
    stateDim: { unknown: true },
    actionDim: { unknown: true },
  })
  if (facts.batchNorm.length === 0) return undefined
  const from =
    said['pretrained_backbone_weights'] === undefined
      ? family.fields['pretrained_backbone_weights']?.default
      : said['pretrained_backbone_weights']
  const learned = pretrained !== undefined || (from ?? null) !== null
  const source = `lerobot/policies/${type}/modeling_${type}.py, DiffusionRgbEncoder`
  if (learned) {
    ledger.note(
      'differs',
      'policy.use_group_norm',
      "LeRobot trains the ResNet's BatchNorm, whose statistics then depend on how the batch is split over processes; here they stay as pretrained.",
      source,
    )
    return 'frozen'
  }
  config['use_group_norm'] = true
  ledger.note(
    'differs',
    'policy.use_group_norm',
    "LeRobot trains the ResNet's BatchNorm, whose statistics depend on how the batch is split over processes; here a ResNet without pretrained weights has GroupNorm.",
    source,
  )
  return undefined
}

/** The policy's whole configuration, the pretrained policy's below what was said. */
function whole({ said }: ReadPolicy, pretrained: Surroundings['pretrained']): Readonly<Record<string, unknown>> {
  return { ...pretrained, ...said }
}

interface ImportedHardware {
  readonly code: Call
  readonly cpu: boolean
  readonly bf16: boolean
}

function importHardware(
  policy: ReadPolicy,
  processes: number,
  { gpu, nodes: said }: Surroundings,
  ledger: Ledger,
): ImportedHardware {
  const device = policy.said['device']
  if (device === 'cpu' && gpu === undefined) return { code: new Call('cpus', { processes }), cpu: true, bf16: false }
  if (gpu !== undefined && findGpu(gpu) === undefined) {
    ledger.refuse('--gpu', `The catalog has no GPU '${gpu}'.`, likelyGpu(gpu).fix)
  }
  if (gpu === undefined)
    ledger.assume('policy.device', `The configuration does not say which GPU: ${assumedGpu}. Say it with --gpu.`)
  const usual = processes > 8 && processes % 8 === 0 ? processes / 8 : 1
  const nodes = said !== undefined && processes % said === 0 ? said : usual
  const perNode = processes / nodes
  if (nodes > 1 && nodes !== said)
    ledger.assume('processes', `${String(processes)} processes: ${String(nodes)} nodes of 8 GPUs.`)
  const name = gpu ?? assumedGpu
  const shape = { perNode: perNode === 1 ? undefined : perNode, nodes: nodes === 1 ? undefined : nodes }
  const code = perNode === 1 && nodes === 1 ? new Call('gpus', name) : new Call('gpus', name, shape)
  return { code, cpu: false, bf16: findGpu(name)?.bf16 ?? false }
}

/** The dtype of every module, where it is not the one that the hardware has by default. */
function importPrecision(
  { policy, said }: ReadConfiguration,
  { cpu, bf16 }: ImportedHardware,
  launched: string | undefined,
  ledger: Ledger,
): 'fp32' | 'bf16' | undefined {
  const family = findPolicy(policy.type)
  const hasDtype = family !== undefined && Object.hasOwn(family.managed, 'dtype')
  const dtype = hasDtype ? (policy.said['dtype'] ?? family.managed['dtype']?.default) : undefined
  const amp = policy.said['use_amp'] === true
  if (amp && hasDtype)
    ledger.note(
      'ignored',
      'policy.use_amp',
      `${policy.type} has a dtype, and training takes its precision from that (${String(dtype)}); lerobot-eval does honour use_amp.`,
      `${trainer}, train`,
    )
  if (dtype === 'bfloat16')
    ledger.note(
      'changed',
      'policy.dtype',
      'The parameters themselves are bf16 and AdamW updates them without a copy in fp32, so that small updates are rounded away. Here modules compute in bf16, over masters in fp32.',
      `lerobot/policies/${policy.type}/modeling_${policy.type}.py, to_bfloat16_for_selected_params; ${trainer}`,
    )
  if (amp && !hasDtype && !cpu)
    ledger.note(
      'differs',
      'policy.use_amp',
      'On CUDA, autocast computes in fp16 with a loss scaler; here it is bf16 over masters in fp32, where the GPU has it.',
      `${trainer}, train: torch.get_autocast_dtype`,
    )
  const asked = launched !== undefined && launched !== 'no'
  if (asked && (hasDtype || amp))
    ledger.note(
      'ignored',
      'mixed_precision',
      `The launcher's ${launched} is replaced by ${hasDtype ? `the dtype of ${policy.type} (${String(dtype)})` : 'what use_amp says'}.`,
      `${trainer}, train: Accelerator(mixed_precision=...)`,
    )
  else if (asked && launched === 'fp16')
    ledger.note(
      'differs',
      'mixed_precision',
      'Autocast computed in fp16 with a loss scaler; here it is bf16 over masters in fp32, where the GPU has it.',
      `${trainer}, train: accelerator.autocast`,
    )
  else if (asked && launched !== 'bf16')
    ledger.refuse('mixed_precision', `'${launched}' has no counterpart.`, "Launch it with 'bf16', 'fp16' or 'no'.")
  const mixed = dtype === 'bfloat16' || (!hasDtype && (amp || asked))
  if (said.has('cudnn_deterministic') && dtype === undefined && !mixed && !cpu)
    ledger.note(
      'differs',
      'policy.dtype',
      'LeRobot allows TF32 in matrix products of fp32; here fp32 is fp32. Leave dtype out of the modules to compute in bf16.',
      `${trainer}, train: torch.backends.cuda.matmul.allow_tf32`,
    )
  if (cpu) return mixed ? 'bf16' : undefined
  return !mixed && bf16 ? 'fp32' : undefined
}

const modeNames: Readonly<Partial<Record<NormalizationMode, string>>> = {
  MEAN_STD: 'meanStd',
  MIN_MAX: 'minMax',
  QUANTILES: 'quantiles',
  IDENTITY: 'identity',
}

function importNormalization(effective: PolicyFacts, declared: PolicyFacts, ledger: Ledger): Code | undefined {
  const normalize: Record<string, Code> = {}
  for (const [kind, name] of [
    ['STATE', 'state'],
    ['ACTION', 'action'],
  ] as const) {
    const mode = effective.normalization[kind]
    const ours = modeNames[mode]
    if (ours === undefined)
      ledger.refuse(
        `policy.normalization_mapping.${kind}`,
        `${mode} (q10 and q90) has no counterpart.`,
        'Use QUANTILES (q01 and q99), MIN_MAX or MEAN_STD.',
      )
    else if (mode !== declared.normalization[kind]) normalize[name] = ours
  }
  if (['STATE', 'ACTION'].some((kind) => effective.normalization[kind as 'STATE'] !== 'IDENTITY'))
    ledger.note(
      'changed',
      'policy.normalization_mapping',
      "A dimension that never moves is divided by 1e-8, and a feature without statistics passes unnormalised. Here both stop the run; normalize: { constant: 'pass' } leaves such a dimension as it is.",
      'lerobot/processor/normalize_processor.py, _apply_transform',
    )
  return Object.keys(normalize).length === 0 ? undefined : normalize
}

/** What normalises the pictures, where it is not what LeRobot's trainer does with the policy by itself. */
function importImages(
  { normalization: { VISUAL: mode } }: PolicyFacts,
  { normalization: { VISUAL: usual } }: PolicyFacts,
  imagenet: boolean,
  ledger: Ledger,
): ImageNormalization | undefined {
  if (mode === 'IDENTITY') {
    if (imagenet)
      ledger.note(
        'ignored',
        'dataset.use_imagenet_stats',
        'Images are not normalised by statistics (normalization_mapping.VISUAL is IDENTITY), so that it has no effect.',
        'lerobot/datasets/factory.py, make_dataset; lerobot/processor/normalize_processor.py',
      )
    return usual === 'IDENTITY' ? undefined : 'identity'
  }
  if (mode !== 'MEAN_STD') {
    ledger.refuse(
      'policy.normalization_mapping.VISUAL',
      `${mode} of images has no counterpart.`,
      'Use MEAN_STD or IDENTITY.',
    )
    return undefined
  }
  if (!imagenet) return 'meanStd'
  return usual === 'MEAN_STD' ? undefined : 'imagenet'
}

/** What holds for the whole run. */
function noteTraining(
  config: ReadConfiguration,
  processes: number,
  pretrained: string | undefined,
  effective: PolicyFacts,
  ledger: Ledger,
): void {
  const { policy, train, said } = config
  const { type } = policy
  const modeling = `lerobot/policies/${type}/modeling_${type}.py`
  if (
    type === 'pi0' ||
    type === 'pi05' ||
    type === 'xvla' ||
    (type === 'diffusion' && policy.said['do_mask_loss_for_padding'] !== true)
  )
    ledger.note(
      'changed',
      type === 'diffusion' ? 'policy.do_mask_loss_for_padding' : 'action_is_pad',
      "Actions beyond the end of an episode count in the loss: the last action, repeated. Here they do not; padding: 'counted' trains as LeRobot did.",
      `${modeling}, forward`,
    )
  if (processes > 1) {
    const draws =
      type === 'act'
        ? 'dropout and the latent variable'
        : type === 'diffusion'
          ? 'noise, diffusion steps and crops'
          : 'noise and times'
    ledger.note(
      'changed',
      'seed',
      `Every process has the same seed, so that ${draws} of the samples at one place of their batches are the same on all ${String(processes)} of them. Here each sample has its own.`,
      'lerobot/utils/random_utils.py, set_seed',
    )
    ledger.note(
      'changed',
      'batch_size',
      'The loss is a mean on each process and then over processes, so that an action weighs more where fewer are valid. Here it is one mean over all valid actions.',
      `${modeling}, forward; ${trainer}, update_policy`,
    )
  }
  if (pretrained !== undefined && (type === 'pi0' || type === 'pi05')) {
    ledger.note(
      'changed',
      'policy.pretrained_path',
      'Weights that do not load leave the policy at random values, with a printed line. Here every key is accounted for, or the run stops.',
      `${modeling}, from_pretrained`,
    )
    if (typeof policy.said['pretrained_revision'] === 'string')
      ledger.note(
        'ignored',
        'policy.pretrained_revision',
        'The revision holds for config.json alone: the weights are downloaded from the main branch. Here it holds for both.',
        `${modeling}, from_pretrained: kwargs.get("revision")`,
      )
  }
  if (type === 'smolvla' && pretrained === undefined && policy.said['load_vlm_weights'] !== true)
    ledger.note(
      'changed',
      'policy.load_vlm_weights',
      'It is false and no pretrained policy is named: the vision-language model has random weights, and is frozen with them where train_expert_only is true.',
      'lerobot/policies/smolvla/smolvlm_with_expert.py',
    )
  const dead = effective.modules.flatMap((module) => module.dead)
  if (dead.length > 0 && config.peft === null)
    ledger.note(
      'changed',
      'policy.type',
      `LeRobot gives the optimizer parameters of ${type} that no loss depends on (${dead.slice(0, 2).join(', ')}${dead.length > 2 ? ', ...' : ''}), and DDP looks for them at every step. Here they have neither optimizer state nor gradient.`,
      `${modeling}, get_optim_params`,
    )
  if (policy.said['use_relative_actions'] === true)
    ledger.note(
      'changed',
      'policy.use_relative_actions',
      'Actions become relative before they are normalised, by the statistics of the dataset, which are those of absolute actions unless they were recomputed.',
      `${trainer}, train: relative_actions_processor`,
    )
  if (policy.said['compile_model'] === true)
    ledger.note('dropped', 'policy.compile_model', 'Nothing is compiled here.', modeling)
  if (policy.said['gradient_checkpointing'] === true && type !== 'diffusion')
    ledger.note(
      'ignored',
      'policy.gradient_checkpointing',
      'It has no effect on the vision tower. Here it becomes recompute of the language model and the expert.',
      `${modeling}, gradient_checkpointing_enable`,
    )
  if (train.resume)
    ledger.note(
      'dropped',
      'resume',
      "A resumed run begins at the checkpoint's step with its optimizer and schedule. The pipeline begins at update 0, from the weights it names.",
      `${trainer}, train: load_training_state`,
    )
  if (Object.keys(train.rename_map).length > 0 && pretrained === undefined)
    ledger.refuse(
      'rename_map',
      'LeRobot refuses it without a pretrained policy: a fresh one takes the names of the dataset.',
      'Remove it, or name the pretrained policy: --policy.pretrained_path.',
    )
  if (policy.said['push_to_hub'] !== false)
    ledger.note(
      'dropped',
      'policy.push_to_hub',
      typeof policy.said['repo_id'] === 'string'
        ? `LeRobot uploads the trained policy to ${policy.said['repo_id']}, since this is true by default. Here nothing is uploaded.`
        : 'It is true by default, and without repo_id LeRobot refuses to start. Here nothing is uploaded.',
      trainer,
    )
  const others: readonly [boolean, string, string][] = [
    [train.save_checkpoint_to_hub, 'save_checkpoint_to_hub', 'Here nothing is uploaded.'],
    [(config.job.target ?? 'local') !== 'local', 'job.target', 'The run is launched on your own machines.'],
    [config.dataset.streaming, 'dataset.streaming', 'Here the dataset lies on disk and is read in one global order.'],
    [config.sampleWeighting, 'sample_weighting', 'Here every valid action weighs the same.'],
    [train.tolerance_s !== 1e-4, 'tolerance_s', "Frames are looked up with LeRobot's default tolerance."],
    [train.max_eval_samples > 0, 'max_eval_samples', 'All held-out episodes are scored.'],
    [
      train.cudnn_deterministic && said.has('cudnn_deterministic'),
      'cudnn_deterministic',
      'Kernels are chosen by PyTorch.',
    ],
    [config.dataset.depth_output_unit !== 'mm', 'dataset.depth_output_unit', 'Depth is not read.'],
  ]
  for (const [is, field, message] of others) if (is) ledger.note('dropped', field, message, trainer)
  if (config.dataset.eval_split > 0) {
    ledger.note(
      'differs',
      'dataset.eval_split',
      'LeRobot holds out the last episodes of each task; here the last ones of the whole dataset. A list of episodes in holdout says exactly which.',
      'lerobot/datasets/factory.py, make_train_eval_datasets',
    )
    if (train.eval_steps <= 0)
      ledger.note(
        'ignored',
        'dataset.eval_split',
        'eval_steps is 0: the episodes are held out of training and never scored. Here they are.',
        `${trainer}, train: is_eval_step`,
      )
  } else if (train.eval_steps > 0)
    ledger.refuse(
      'eval_steps',
      'LeRobot refuses it without dataset.eval_split.',
      'Add --dataset.eval_split=0.05, or remove it.',
    )
}

function importAugmentation({ transforms }: ReadConfiguration, ledger: Ledger): Code | undefined {
  if (!transforms.enable) return undefined
  const options: Record<string, number> = {}
  const dropped: string[] = []
  for (const [name, { type, weight, kwargs }] of Object.entries(transforms.tfs)) {
    if (weight <= 0) continue
    const entries = Object.entries(kwargs)
    const strengths = entries.map(([kind, range]) => [kind, strength(kind, range)] as const)
    if (type === 'ColorJitter' && strengths.every(([, value]) => value !== undefined))
      for (const [kind, value] of strengths) options[kind] = value ?? 0
    else dropped.push(name)
  }
  ledger.note(
    'differs',
    'dataset.image_transforms',
    `LeRobot draws up to ${String(transforms.max_num_transforms)} of its transforms for each frame; here all that are declared act on each image${dropped.length === 0 ? '' : `, and ${dropped.join(' and ')} have no counterpart`}. Packages and evaluation are not augmented on either side.`,
    'lerobot/transforms/transforms.py, ImageTransforms',
  )
  return Object.keys(options).length === 0 ? undefined : new Call('imageAugmentation', options)
}

/** Half the width of a symmetric range around 1 (around 0 for the hue); undefined for any other. */
function strength(kind: string, range: unknown): number | undefined {
  if (!['brightness', 'contrast', 'saturation', 'hue'].includes(kind)) return undefined
  if (typeof range === 'number') return range
  if (!Array.isArray(range) || range.length !== 2) return undefined
  const [low, high] = range as [unknown, unknown]
  if (typeof low !== 'number' || typeof high !== 'number') return undefined
  const middle = kind === 'hue' ? 0 : 1
  return Math.abs(low + high - 2 * middle) < 1e-9 && high > low ? tidy((high - low) / 2) : undefined
}

function importLoader({ train, said }: ReadConfiguration, cpu: boolean): Code | undefined {
  // LeRobot's default of 4 takes time from training processes on CPUs, where ours is 0.
  if (!said.has('num_workers') || train.num_workers === (cpu ? 0 : 4) || (cpu && train.num_workers === 4))
    return undefined
  return { workers: train.num_workers }
}

function importSeed({ train }: ReadConfiguration, ledger: Ledger): number | undefined {
  if (train.seed !== null) return train.seed === 0 ? undefined : train.seed
  ledger.note('differs', 'seed', 'LeRobot drew differently in every run; here the seed is 0.', `${trainer}, train`)
  return undefined
}

function importCheckpoint({ train }: ReadConfiguration, ledger: Ledger): Code | undefined {
  const { save_freq: frequency, steps } = train
  if (frequency <= 0 || frequency >= steps || !train.save_checkpoint) {
    ledger.note(
      'differs',
      train.save_checkpoint ? 'save_freq' : 'save_checkpoint',
      `LeRobot saves ${train.save_checkpoint ? 'the last step alone' : 'nothing'}, so that an interruption costs the whole run; here every tenth of it is saved.`,
      'lerobot/common/train_utils.py, should_save_checkpoint',
    )
    return undefined
  }
  ledger.note(
    'differs',
    'save_freq',
    'LeRobot keeps every checkpoint; here the three newest stay. checkpoint: { keep } says how many.',
    'lerobot/common/train_utils.py, save_checkpoint',
  )
  return { every: frequency }
}

function importEvaluation(
  { env, eval: rollouts, train }: ReadConfiguration,
  policy: ReadPolicy,
  ledger: Ledger,
): Code | undefined {
  if (env === null) return undefined
  if (env.metaworld === null) {
    ledger.note('dropped', 'env', `The simulator here is MetaWorld; '${env.type}' is not evaluated in.`, trainer)
    return undefined
  }
  const tasks = env.metaworld.task.split(',').map((task) => task.trim().replace(/^metaworld-/, ''))
  for (const task of tasks.filter((name) => !metaworldTasks.includes(name))) {
    const meant = suggest(task, metaworldTasks) ?? suggest(task.replace(/-v\d$/, '-v3'), metaworldTasks)
    ledger.refuse(
      'env.task',
      `MetaWorld has no task '${task}'.`,
      meant === undefined ? 'Name one of its tasks.' : `Did you mean '${meant}'?`,
    )
  }
  ledger.note(
    'differs',
    'env_eval_freq',
    `LeRobot rolls the policy out every ${String(train.env_eval_freq)} steps, for at most 500 steps whatever episode_length says; here the packaged policy is rolled out when the run is done.`,
    `${trainer}, train; lerobot/envs/metaworld.py`,
  )
  const steps = policy.said['n_action_steps']
  return new Call('simulation', {
    env: 'metaworld',
    tasks,
    episodes: rollouts.n_episodes === 20 ? undefined : rollouts.n_episodes,
    actionSteps: typeof steps === 'number' ? steps : undefined,
  })
}

/** The job's name where one was given, else the policy and the dataset. */
function pipelineName({ policy, train, dataset, env }: ReadConfiguration): string {
  const usual = env === null ? policy.type : `${env.type}_${policy.type}`
  const data = (dataset.repo_id.split('/').at(-1) ?? '').replace(/^\W+/, '')
  const name = train.job_name === null || train.job_name === usual ? `${policy.type}-${data}` : train.job_name
  return (
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-+|-+$/g, '') || policy.type
  )
}

function tidy(value: number): number {
  return Number(value.toPrecision(12))
}
