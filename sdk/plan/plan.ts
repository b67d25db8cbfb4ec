/**
 * The Plan: everything explicit, nothing left to a default at run time.
 *
 * It is the only thing that rules and emit read. Its values are plain JSON; a side table (`notes`) says for each value where in
 * the declaration it came from and why it is what it is. The hash covers the values alone.
 */
import * as z from 'zod'

/** A value that the lock or a broken part of the declaration leaves open. `because` names the finding or the missing lock entry. */
const unknown = z.strictObject({ unknown: z.literal(true), because: z.string() })
const known = <T extends z.ZodType>(type: T) => z.union([type, unknown])

export const dtype = z.enum(['fp64', 'fp32', 'bf16'])
const path = z.array(z.union([z.string(), z.number().int()]))
const count = z.number().int().nonnegative()
const positive = z.number().int().positive()

const tower = z.strictObject({
  source: z.enum(['timm', 'transformers']),
  name: z.string(), // timm model name, or a directory / hub id for transformers
  revision: z.string().nullable(),
  weights: z.string().nullable(), // local directory or file with pretrained weights; null: initialised by the library
  imageSize: positive, // pixels, square
  output: z.enum(['tokens', 'map']), // patch tokens, or a convolutional feature map [C, H, W]
  layer: z.number().int(), // tokens: block index from the end (-2 as Prismatic); map: features_only out index
  norm: z.enum(['native', 'group']), // 'group' replaces BatchNorm by GroupNorm
  mean: z.array(z.number()).length(3),
  std: z.array(z.number()).length(3),
  options: z.record(z.string(), z.json()), // further keyword arguments of the library's constructor
  config: known(z.record(z.string(), z.json())).exactOptional(), // transformers: its config, the vision half of a two-tower model
  width: known(positive), // channels of the output
  tokens: known(positive), // tokens per image (tokens), or cells of the map
})

const projector = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('linear') }),
  z.strictObject({ kind: z.literal('mlp'), layers: positive }), // GELU between, width of the trunk
  z.strictObject({ kind: z.literal('fusedMlp') }), // d -> 4d -> h -> h, as Prismatic
  z.strictObject({ kind: z.literal('spatialSoftArgmax'), points: positive }), // key points of a map, then linear to one token
])

const language = z.strictObject({
  source: z.enum(['config', 'pretrained']), // built from `config`, or loaded from a directory or hub id
  name: z.string().nullable(), // directory or hub id where source is 'pretrained' (its tokenizer too)
  revision: z.string().nullable(),
  config: known(z.record(z.string(), z.json())), // transformers config, with model_type
  tokenizer: z.enum(['bytes', 'pretrained']), // 'bytes': a byte-level tokenizer written beside the model
  spareTokens: count, // vocabulary entries appended for action tokens
  hidden: known(positive),
  layers: known(positive),
  heads: known(positive),
  vocab: known(positive), // rows of the embedding
})

const flow = {
  steps: positive, // Euler steps at inference
  timeAlpha: z.number(), // t ~ Beta(alpha, beta) * 0.999 + 0.001, as openpi
  timeBeta: z.number(),
}

const action = z.discriminatedUnion('decoder', [
  z.strictObject({
    decoder: z.literal('tokens'),
    bins: positive,
    chunk: positive,
    vocabulary: known(positive), // the bins are the entries below this one; rows behind it only pad the embedding
    stopToken: known(count), // predicted behind the last action token
  }),
  z.strictObject({
    decoder: z.literal('regression'),
    chunk: positive,
    hidden: known(positive),
    blocks: positive,
    queries: z.enum(['learnable', 'zero']), // embeddings of the action slots; zero: OpenVLA-OFT
    slots: known(positive), // trunk tokens per action: 1, or one per action dimension (OpenVLA-OFT)
  }),
  z.discriminatedUnion('attention', [
    z.strictObject({
      decoder: z.literal('flowMatching'),
      attention: z.literal('cross'), // to the trunk's last hidden states
      chunk: positive,
      hidden: positive,
      layers: positive,
      heads: positive,
      ...flow,
    }),
    z.strictObject({
      decoder: z.literal('flowMatching'),
      attention: z.literal('joint'), // an expert sees the trunk's keys and values at every layer
      chunk: positive,
      hidden: positive,
      mlp: positive, // inner width of the expert's MLPs
      layers: known(positive), // these four as the trunk's
      heads: known(positive),
      keyValueHeads: known(positive),
      headDim: known(positive),
      ...flow,
    }),
  ]),
])

const composedModel = z.strictObject({
  family: z.enum(['composed', 'openvla']),
  cameras: z.array(z.string()).min(1), // the model's camera slots, in sequence order
  vision: z.strictObject({ towers: z.array(tower).min(1), fuse: z.enum(['channels', 'sequence']) }),
  projector,
  language,
  action,
  mask: z.enum(['causal', 'prefix', 'full']), // attention of the trunk: causal; prefix-LM; every token sees every token
  prompt: z.string(), // '{instruction}' is replaced
  promptTokens: positive, // padded length of the tokenised prompt
  promptLower: z.boolean(), // the instruction is put into lower case (OpenVLA)
  promptTrailingToken: count.nullable(), // token that every prompt must end with (OpenVLA: 29871)
  stateDim: known(count), // 0: no proprioception
  actionDim: known(positive),
  /** Where the whole model's weights come from (an `hf` directory in OpenVLA's layout or of our own); null: each part says. */
  weights: z
    .strictObject({ source: z.string(), revision: z.string().nullable(), layout: z.enum(['openvla', 'composed']) })
    .nullable(),
})

/** A policy of LeRobot's own classes, or of a plugin that registers one. */
const policyModel = z.strictObject({
  family: z.literal('lerobot'),
  type: z.string(), // under which LeRobot knows it
  plugin: z.string().nullable(), // Python package that registers the type when it is imported; null: LeRobot's own
  cameras: z.array(z.string()).min(1), // LeRobot's features are observation.images.<camera>
  config: z.record(z.string(), z.json()), // fields of the policy's configuration, beside features, normalisation and device
  weights: z
    .strictObject({ source: z.string(), revision: z.string().nullable(), layout: z.literal('lerobot') })
    .nullable(),
  pretrainedWidths: known(z.strictObject({ state: positive.nullable(), action: positive.nullable() }).nullable()), // that the weights pad to; null: no weights, or they do not say
  tokenizer: z.string().nullable(), // directory of the tokenizer; null: LeRobot's own name of it
  chunk: known(positive), // actions per prediction
  observationSteps: known(positive), // frames of observation that it sees
  stateDim: known(count), // 0: no proprioception
  actionDim: known(positive),
  imageSizes: known(z.record(z.string(), z.tuple([positive, positive]))), // camera -> [height, width] in pixels, as the dataset has them
  images: known(z.enum(['identity', 'imagenet', 'meanStd'])), // what normalises the pictures before the policy sees them
  padding: z.enum(['masked', 'counted']), // actions beyond the end of an episode
  /** How the loss is reduced over all processes: per element, term by term, or LeRobot's mean weighted by the count of valid elements. */
  loss: z.enum(['perElement', 'terms', 'validCount']),
  batchNorm: z.enum(['refuse', 'frozen']), // layers that would learn their statistics from each micro-batch
  statistics: z.enum(['dataset', 'inherited']), // those of the dataset, or of the pretrained policy directory
})

export const model = z.discriminatedUnion('family', [composedModel, policyModel])

const dataset = z.strictObject({
  name: z.string(), // key of its statistics in every package
  repo: z.string().nullable(),
  root: z.string().nullable(), // as the user wrote it, relative to pipeline.ts
  revision: z.string().nullable(),
  weight: z.number().positive(),
  cameras: z.record(z.string(), z.string()), // model camera -> dataset feature
  state: z.string().nullable(),
  action: z.string(),
  selected: z.array(count).nullable(), // episodes to use; null: all of them
  holdout: known(z.array(count)), // those of them kept out of training, which have their own loss; unknown: a share, without the lock
  fps: known(z.number().positive()),
  episodes: known(count),
  frames: known(count),
  stateDim: known(count),
  actionDim: known(positive),
  cameraSizes: known(z.record(z.string(), z.tuple([positive, positive]))), // dataset feature -> [height, width] in pixels
  video: known(z.boolean()),
  clock: known(z.strictObject({ timestampMax: z.number(), frameIndexMax: z.number() }).nullable()), // of the longest episode: seconds, and frames from 0
  /** feature -> statistic -> values, one per dimension (action and state only); null: not a finite number in the dataset. */
  statistics: known(z.record(z.string(), z.record(z.string(), z.array(z.number().nullable())))),
  fingerprint: known(z.string()), // sha256 over the dataset's meta files, as the lock saw them
})

const normalization = z.enum(['meanStd', 'minMax', 'quantiles', 'identity'])

const freezePhase = z.strictObject({
  from: count, // first update of the phase
  trains: z.union([z.literal('all'), z.literal('none'), z.strictObject({ lastLayers: positive })]),
  rewarm: count, // updates of linear LR re-warm-up of what was unfrozen at `from`
})

export const moduleNode = z.strictObject({
  name: z.string(),
  parameters: z.array(z.string()).min(1), // fnmatch patterns over fully qualified names
  dead: z.array(z.string()), // patterns of parameters that never receive a gradient
  blocks: z.array(z.string()), // patterns of repeated blocks: FSDP2 wrap units, recompute units, what `lastLayers` counts
  liveBlocks: z.array(known(count)), // for each entry of `blocks`, how many come before the dead ones
  lr: known(z.number().nonnegative().nullable()), // null: nothing of it ever trains; unknown: something trains and nothing gives a rate
  weightDecay: z.number().nonnegative(),
  dtype, // compute dtype
  storage: dtype, // dtype of the sharded parameter; fp32 wherever something trains
  recompute: z.enum(['none', 'full']),
  freeze: z.array(freezePhase).min(1), // the first starts at 0
  adapt: z
    .strictObject({
      kind: z.literal('lora'),
      rank: positive,
      alpha: z.number().positive(),
      dropout: z.number(),
      targets: z.array(z.string()).nullable(),
    }) // null: every linear of the module
    .nullable(),
  count: known(count), // parameters, adapters excluded
  deadCount: known(count),
  adapterCount: known(count),
})

const gpu = z.strictObject({
  kind: z.literal('gpus'),
  gpu: z.string(),
  perNode: positive,
  nodes: positive,
  memoryBytes: known(positive), // per GPU; unknown: a GPU that the catalog does not have
  hostMemoryBytes: positive.nullable(), // per node
  network: z.string().nullable(),
})
const cpu = z.strictObject({ kind: z.literal('cpus'), processes: positive, nodes: z.literal(1) })

const schedule = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('cosine'), warmup: count, floor: z.number() }), // floor: share of the peak LR at the end
  z.strictObject({ kind: z.literal('constant'), warmup: count }),
  z.strictObject({ kind: z.literal('linear'), warmup: count, floor: z.number() }),
])

export const pipeline = z.strictObject({
  name: z.string(),
  model,
  datasets: z.array(dataset).min(1),
  normalize: z.strictObject({
    state: normalization,
    action: normalization,
    constant: z.enum(['refuse', 'pass', 'zero']), // dimensions whose range is zero
    actionMask: known(z.array(z.boolean())), // false: the dimension passes unnormalised (OpenVLA's gripper)
    clip: z.boolean(), // clip normalised actions to [-1, 1]
  }),
  augment: z
    .strictObject({
      crop: z.number().positive().max(1).nullable(), // share of the area that a random crop keeps; evaluation takes the centre crop of the same area
      brightness: z.number(),
      contrast: z.number(),
      saturation: z.number(),
      hue: z.number(),
    })
    .nullable(),
  loader: z.strictObject({ workers: count }), // processes per rank
  modules: z.array(moduleNode).min(1),
  hardware: z.discriminatedUnion('kind', [gpu, cpu]),
  parallel: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('fsdp2'), shard: z.enum(['full', 'gradOp']), world: positive }),
    z.strictObject({ kind: z.literal('ddp'), world: positive }),
  ]),
  training: z.strictObject({
    updates: positive,
    globalBatch: positive,
    microBatch: positive,
    accumulation: known(positive),
    optimizer: z.strictObject({
      kind: z.literal('adamw'),
      betas: z.tuple([z.number(), z.number()]),
      eps: z.number(),
      decayBiasAndNorm: z.boolean(),
    }),
    schedule,
    clip: z.number().positive().nullable(),
    seed: count,
    skipNonFinite: count, // updates skipped for a non-finite loss or gradient before the run stops
    validateEvery: count, // updates between two losses on the held-out episodes; 0: never
  }),
  checkpoint: z.strictObject({ every: positive, keep: positive }),
  track: z.array(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('tensorboard') }),
      z.strictObject({ kind: z.literal('jsonl') }),
      z.strictObject({ kind: z.literal('wandb'), project: z.string(), entity: z.string().nullable() }),
    ]),
  ),
  evaluate: z
    .strictObject({
      env: z.literal('metaworld'),
      tasks: z.array(z.string()).min(1),
      episodes: positive,
      maxSteps: positive,
      imageSize: positive, // pixels, square, as recorded
      firstSeed: count, // seeds firstSeed .. firstSeed + episodes - 1
      actionSteps: positive, // actions of a chunk that are executed before the policy is asked again
    })
    .nullable(),
  exports: z.array(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('hf'), dtype }),
      z.strictObject({ kind: z.literal('lerobot'), dtype }),
    ]),
  ),
  launch: z.array(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('torchrun') }),
      z.strictObject({
        kind: z.literal('slurm'),
        partition: z.string(),
        time: z.string(),
        account: z.string().nullable(),
        requeue: z.boolean(),
        setup: z.array(z.string()), // shell lines that the user wants before the launch, verbatim
      }),
    ]),
  ),
  suppressed: z.array(z.strictObject({ rule: z.string(), reason: z.string() })),
})

/** Why a value is what it is. Keyed by JSON pointer into the values: `/modules/0/lr`. */
export const note = z.strictObject({
  /** Where the user said it, or would say it. */
  path,
  /** 'declared', or where the value comes from: 'recipe', 'catalog', 'lock', 'derived', 'default'. */
  from: z.enum(['declared', 'recipe', 'catalog', 'lock', 'derived', 'default']),
  /** One sentence for people. */
  reason: z.string(),
})

export const plan = z.strictObject({
  schemaVersion: z.literal(1),
  hash: z.string(), // sha256 over the canonical JSON of `pipeline`
  pipeline,
  notes: z.record(z.string(), note),
})

export type Unknown = z.infer<typeof unknown>
export type DType = z.infer<typeof dtype>
export type Pipeline = z.infer<typeof pipeline>
export type PlanModel = z.infer<typeof model>
export type ComposedPlanModel = z.infer<typeof composedModel>
export type PolicyPlanModel = z.infer<typeof policyModel>
export type PlanModule = z.infer<typeof moduleNode>
export type PlanDataset = z.infer<typeof dataset>
export type PlanTower = z.infer<typeof tower>
export type Note = z.infer<typeof note>
export type Plan = z.infer<typeof plan>

/** Whether the Plan knows a value. */
export function isKnown<T>(value: T | Unknown): value is T {
  return !(
    typeof value === 'object' &&
    value !== null &&
    'unknown' in value &&
    (value as { unknown?: unknown }).unknown === true
  )
}

/** Actions per prediction, and the place in the Plan that says so. */
export function chunkOf(model: PlanModel): { readonly chunk: number | Unknown; readonly at: readonly string[] } {
  return model.family === 'lerobot'
    ? { chunk: model.chunk, at: ['model', 'chunk'] }
    : { chunk: model.action.chunk, at: ['model', 'action', 'chunk'] }
}
