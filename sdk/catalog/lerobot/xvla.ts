/**
 * X-VLA in LeRobot 0.6.1: Florence-2 without its text decoder, and a transformer over everything with prompts of each embodiment.
 * Source: lerobot/policies/xvla/configuration_xvla.py, modeling_xvla.py, soft_transformer.py, action_hub.py;
 * transformers/models/florence2, bart.
 */
import { convLayer, linearLayer, normLayer, tensor, type Parameter } from '../parameters.ts'
import {
  chunkProblems,
  embedding,
  known,
  policyModule,
  undescribed,
  type ImageSizes,
  type PolicyDescription,
  type PolicyFacts,
  type PolicyModule,
} from './facts.ts'
import {
  boolean,
  choice,
  count,
  integer,
  layerCount,
  integerOrNull,
  managed,
  modes,
  number,
  numberOrNull,
  object,
  pair,
  readConfig,
  sizeOrNull,
  text,
  textOrNull,
  type Fields,
  type ManagedFields,
  type Problem,
  type Values,
} from './fields.ts'

/**
 * Florence-2-large as lerobot/xvla-base has it, in transformers' own names. With it, `action_mode: 'auto'`, `max_action_dim` and
 * `max_state_dim` of 20, the catalog counts the 879,482,456 parameters that LeRobot reports of lerobot/xvla-base.
 */
export const florence2Large = {
  vision_config: {
    model_type: 'florence_vision',
    depths: [1, 1, 9, 1],
    embed_dim: [256, 512, 1024, 2048],
    num_heads: [8, 16, 32, 64],
    num_groups: [8, 16, 32, 64],
    patch_size: [7, 3, 3, 3],
    patch_stride: [4, 2, 2, 2],
    patch_padding: [3, 1, 1, 1],
    patch_prenorm: [false, true, true, true],
    window_size: 12,
    drop_path_rate: 0.1,
    projection_dim: 1024,
    max_position_embeddings: 50,
    max_temporal_embeddings: 100,
  },
  text_config: {
    model_type: 'bart',
    vocab_size: 51_289,
    d_model: 1024,
    max_position_embeddings: 4096,
    encoder_layers: 12,
    encoder_ffn_dim: 4096,
    encoder_attention_heads: 16,
    decoder_layers: 12,
    decoder_ffn_dim: 4096,
    decoder_attention_heads: 16,
    pad_token_id: 1,
    bos_token_id: 0,
    eos_token_id: 2,
  },
} as const

/** Widths of the action spaces: the model's, and those of actions that mean something in it. `auto` takes any. */
const actionModes = {
  ee6d: { width: 20, real: [20] },
  joint: { width: 14, real: [14] },
  agibot_ee6d: { width: 20, real: [20] },
  franka_joint7: { width: 20, real: [7] },
  auto: { width: null, real: null },
  so101_bimanual: { width: 20, real: [12] },
} as const

/** Fields of `XVLAConfig` that a user sets. */
export const xvlaFields = {
  /** Actions per prediction. @default 32 */
  chunk_size: integer(32),
  /** Actions of a prediction that are executed before the next one. @default 32 */
  n_action_steps: integer(32),
  /** Florence-2's `vision_config` and `text_config`. @default {}, which LeRobot refuses; or the pretrained policy's */
  florence_config: object({}),
  /** Hub id or directory of the tokenizer. @default 'facebook/bart-large' */
  tokenizer_name: text('facebook/bart-large'),
  /** Tokens of the instruction. @default 64 */
  tokenizer_max_length: integer(64),
  /** Side on which instructions are padded. @default 'right' */
  tokenizer_padding_side: choice(['right', 'left'], 'right'),
  /** Instructions are padded to `tokenizer_max_length`, or to the longest of a batch. @default 'max_length' */
  pad_language_to: choice(['max_length', 'longest'], 'max_length'),
  /** Width of the transformer. @default 1024 */
  hidden_size: integer(1024),
  /** Layers of the transformer. @default 24 */
  depth: layerCount(24),
  /** Attention heads of the transformer. @default 16 */
  num_heads: integer(16),
  /** Hidden width of the feed-forward layers as a multiple of the width. @default 4 */
  mlp_ratio: number(4),
  /** Embodiments, each with prompts and action layers of its own. @default 30 */
  num_domains: integer(30),
  /** Tokens of an embodiment's prompt. @default 32 */
  len_soft_prompts: count(32),
  /** Width of the embedding of the time. @default 32 */
  dim_time: integer(32),
  /** Longest sequence of actions, images and language. @default 512 */
  max_len_seq: integer(512),
  /** Projections of images and language of each embodiment's own. @default false */
  use_hetero_proj: boolean(false),
  /** Layout of the actions; `auto`: any, padded to `max_action_dim`. @default 'ee6d' */
  action_mode: choice(['ee6d', 'joint', 'agibot_ee6d', 'franka_joint7', 'auto', 'so101_bimanual'], 'ee6d'),
  /** Integration steps at inference. @default 10 */
  num_denoising_steps: integer(10),
  /** The transformer sees the state. @default true */
  use_proprio: boolean(true),
  /** Width to which states are padded. @default 32 */
  max_state_dim: integer(32),
  /** Width to which actions are padded with `action_mode: 'auto'`. @default 20 */
  max_action_dim: integer(20),
  /** Feature of the data that names the embodiment. @default null (embodiment 0) */
  domain_feature_key: textOrNull(null),
  /** Height and width to which images are resized, with padding. @default null (as they are) */
  resize_imgs_with_padding: sizeOrNull(null),
  /** Images per sample; missing ones are black and masked. @default null (as many as cameras) */
  num_image_views: integerOrNull(null),
  /** Cameras that the policy has and the data has not: black and masked. @default 0 */
  empty_cameras: count(0),
} as const satisfies Fields

/** Fields of `XVLAConfig` that the pipeline decides. */
export const xvlaManaged = {
  n_obs_steps: managed(integer(1), 'fixed: one frame'),
  dtype: managed(choice(['bfloat16', 'float32'], 'float32'), 'modules: dtype and storage'),
  normalization_mapping: managed(modes({ VISUAL: 'IDENTITY', STATE: 'IDENTITY', ACTION: 'IDENTITY' }), 'normalize'),
  freeze_vision_encoder: managed(boolean(false), 'modules.vision: freeze'),
  freeze_language_encoder: managed(boolean(false), 'modules.language: freeze'),
  train_policy_transformer: managed(boolean(true), 'modules.policy and modules.heads: freeze'),
  train_soft_prompts: managed(boolean(true), 'modules.softPrompts: freeze'),
  optimizer_lr: managed(number(1e-4), 'training: lr'),
  optimizer_betas: managed(pair([0.9, 0.99]), 'training: optimizer'),
  optimizer_eps: managed(number(1e-8), 'training: optimizer'),
  optimizer_weight_decay: managed(number(0), 'training: weightDecay'),
  optimizer_grad_clip_norm: managed(number(10), 'training: clip'),
  optimizer_soft_prompt_lr_scale: managed(number(1), 'modules.softPrompts: lr'),
  optimizer_soft_prompt_warmup_lr_scale: managed(numberOrNull(null), 'modules.softPrompts: lr'),
  scheduler_warmup_steps: managed(count(1000), 'training: schedule'),
  scheduler_decay_steps: managed(integer(30_000), 'training: schedule'),
  scheduler_decay_lr: managed(number(2.5e-6), 'training: schedule'),
} as const satisfies ManagedFields

type XvlaConfig = Values<typeof xvlaFields & typeof xvlaManaged>

/** What shapes depend on in Florence-2. */
interface Florence {
  readonly channels: number
  readonly dims: readonly number[]
  readonly depths: readonly number[]
  readonly kernels: readonly number[]
  readonly strides: readonly number[]
  readonly paddings: readonly number[]
  readonly prenorm: readonly boolean[]
  readonly ratio: number
  readonly qkvBias: boolean
  readonly projection: number
  readonly positions: number
  readonly temporal: number
  readonly vocab: number
  readonly width: number
  readonly layers: number
  readonly hidden: number
  readonly heads: number
  readonly textPositions: number
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0
const asObject = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined

/**
 * Reads `florence_config` with transformers' defaults, in its own names or in those of Microsoft's first release (which older X-VLA
 * checkpoints have); says what cannot be read.
 */
function readFlorence(config: Readonly<Record<string, unknown>>): Florence | string {
  const given = asObject(config['vision_config'])
  const language = asObject(config['text_config'])
  if (given === undefined) return 'florence_config needs a vision_config.'
  if (language === undefined) return 'florence_config needs a text_config.'
  const visionType = given['model_type'] ?? 'davit'
  if (visionType !== 'davit' && visionType !== 'florence_vision')
    return `florence_config: LeRobot knows no vision backbone '${JSON.stringify(visionType)}'.`
  const textType = language['model_type'] ?? 'bart'
  if (textType !== 'bart' && textType !== 'florence2_language')
    return `florence_config: the catalog does not describe a language model '${JSON.stringify(textType)}'.`
  const vision = { ...given }
  const position = asObject(vision['image_pos_embed'])
  if (position !== undefined) vision['max_position_embeddings'] = position['max_pos_embeddings']
  const temporal = asObject(vision['visual_temporal_embedding'])
  if (temporal !== undefined) vision['max_temporal_embeddings'] = temporal['max_temporal_embeddings']
  if ('dim_embed' in vision) vision['embed_dim'] = vision['dim_embed']

  const wrong: string[] = []
  const number = (from: Readonly<Record<string, unknown>>, key: string, otherwise: number): number => {
    const value = from[key] ?? otherwise
    if (isCount(value)) return value
    wrong.push(key)
    return otherwise
  }
  const list = <T>(key: string, otherwise: readonly T[], test: (value: unknown) => boolean): readonly T[] => {
    const value = vision[key] ?? otherwise
    if (Array.isArray(value) && value.every(test)) return value as T[]
    wrong.push(key)
    return otherwise
  }
  const isNumber = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0
  const florence: Florence = {
    channels: number(vision, 'in_channels', 3),
    dims: list('embed_dim', [128, 256, 512, 1024], isCount),
    depths: list('depths', [1, 1, 9, 1], isCount),
    kernels: list('patch_size', [7, 3, 3, 3], isCount),
    strides: list('patch_stride', [4, 2, 2, 2], isCount),
    paddings: list('patch_padding', [3, 1, 1, 1], isNumber),
    prenorm: list('patch_prenorm', [false, true, true, true], (value) => typeof value === 'boolean'),
    ratio: typeof vision['mlp_ratio'] === 'number' ? vision['mlp_ratio'] : 4,
    qkvBias: vision['qkv_bias'] !== false,
    projection: number(vision, 'projection_dim', 1024),
    positions: number(vision, 'max_position_embeddings', 50),
    temporal: number(vision, 'max_temporal_embeddings', 100),
    vocab: number(language, 'vocab_size', 50_265),
    width: number(language, 'd_model', 1024),
    layers: number(language, 'encoder_layers', 12),
    hidden: number(language, 'encoder_ffn_dim', 4096),
    heads: number(language, 'encoder_attention_heads', 16),
    textPositions: number(language, 'max_position_embeddings', 1024),
  }
  if (wrong.length > 0) return `florence_config: ${wrong.join(', ')} cannot be read.`
  if (florence.projection !== florence.width)
    return `florence_config: images become ${florence.projection} channels wide (projection_dim), text ${florence.width} (d_model); they are one sequence.`
  return florence
}

/** Facts of an X-VLA policy. */
export function xvla(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('xvla', xvlaFields, xvlaManaged, description.config)
  const read = readFlorence(config.florence_config)
  const florence = typeof read === 'string' ? undefined : read
  const actionWidth = actionModes[config.action_mode].width ?? config.max_action_dim
  const stateWidth = config.use_proprio ? config.max_state_dim : 0
  const sizes = known(description.imageSizes)
  const images = Math.max(config.num_image_views ?? 0, description.cameras.length + config.empty_cameras)
  const perImage = florence === undefined ? undefined : tokensPerImage(config, florence, sizes)
  const modules = xvlaModules(config, florence, actionWidth, stateWidth, images)
  return {
    type: 'xvla',
    modules: problems.length > 0 ? undescribed(modules) : modules,
    values: config,
    normalization: config.normalization_mapping,
    recipe: {
      optimizer: 'adamw',
      lr: config.optimizer_lr,
      betas: config.optimizer_betas,
      eps: config.optimizer_eps,
      weightDecay: config.optimizer_weight_decay,
      clip: config.optimizer_grad_clip_norm,
      lrFactors: {
        vision: 0.1,
        projector: 0.1,
        language: 0.1,
        ...(config.optimizer_soft_prompt_lr_scale === 1 ? {} : { softPrompts: config.optimizer_soft_prompt_lr_scale }),
      },
      weightDecayFactors: { vision: 0.1, projector: 0.1, language: 0.1 },
      schedule: {
        kind: 'cosineDecay',
        warmup: config.scheduler_warmup_steps,
        decay: config.scheduler_decay_steps,
        floor: config.scheduler_decay_lr / config.optimizer_lr,
      },
      source: 'lerobot/policies/xvla/configuration_xvla.py, lerobot/optim/optimizers.py',
    },
    chunk: config.chunk_size,
    actionSteps: config.n_action_steps,
    observationSteps: 1,
    firstAction: 0,
    padded: { state: config.use_proprio ? config.max_state_dim : null, action: actionWidth },
    mask: { kind: 'full' },
    joint: null,
    sequence: { perImage, images, language: config.tokenizer_max_length, state: 0, actions: config.chunk_size },
    weights: {
      missing: tiedEmbedding.map((key, index) => ({
        key,
        from: tiedEmbedding[1 - index] ?? key,
        because: 'files hold the tied tensor once',
      })),
      unexpected: [
        {
          pattern: `${languageModel}.final_logits_bias`,
          because: 'a buffer of the text decoder, which X-VLA does not have',
        },
      ],
      tied: [tiedEmbedding],
    },
    batchNorm: [],
    problems: [
      ...problems,
      ...(typeof read === 'string' ? [{ field: 'florence_config', message: read }] : []),
      ...chunkProblems(config.n_action_steps, 'chunk_size', config.chunk_size),
      ...xvlaProblems(config, known(description.stateDim), known(description.actionDim), actionWidth, stateWidth),
      ...lengthProblems(config, sizes, images, perImage),
    ],
  }
}

const languageModel = 'model.vlm.language_model'
const tiedEmbedding = [`${languageModel}.shared.weight`, `${languageModel}.encoder.embed_tokens.weight`] as const

function xvlaModules(
  config: XvlaConfig,
  florence: Florence | undefined,
  actionWidth: number,
  stateWidth: number,
  images: number,
): PolicyModule[] {
  const tower = 'model.vlm.vision_tower'
  const projector = 'model.vlm.multi_modal_projector'
  const transformer = 'model.transformer'
  const width = config.hidden_size
  const domains = config.num_domains
  const prompts = config.len_soft_prompts
  // A weight and a bias for each embodiment, kept as rows of embeddings.
  const byDomain = (name: string, inputs: number, outputs: number): Parameter[] => [
    embedding(`${name}.fc`, domains, outputs * inputs),
    embedding(`${name}.bias`, domains, outputs),
  ]
  const projection = (name: string, inputs: number): Parameter[] =>
    config.use_hetero_proj ? byDomain(name, inputs, width) : linearLayer(name, inputs, width)
  const hidden = Math.trunc(width * config.mlp_ratio)
  const layer = (name: string): Parameter[] => [
    ...normLayer(`${name}.norm1`, width),
    ...normLayer(`${name}.norm2`, width),
    ...linearLayer(`${name}.attn.qkv`, width, 3 * width),
    ...linearLayer(`${name}.attn.proj`, width, width),
    ...linearLayer(`${name}.mlp.fc1`, width, hidden),
    ...linearLayer(`${name}.mlp.fc2`, hidden, width),
  ]
  return [
    policyModule({
      name: 'vision',
      patterns: [`${tower}.*`],
      blocks: [`${tower}.blocks.*.*`],
      liveBlocks: [florence?.depths.reduce((sum, depth) => sum + depth, 0)],
      units: [tower],
      frozen: config.freeze_vision_encoder,
      parameters: florence && davit(tower, florence),
    }),
    policyModule({
      name: 'projector',
      // The projection of the vision-language model's output goes by its learning rate in LeRobot (the name has 'vlm' in it).
      patterns: [`${projector}.*`, `${transformer}.vlm_proj.*`],
      units: [projector, `${transformer}.vlm_proj`],
      frozenParts: config.train_policy_transformer ? [] : [`${transformer}.vlm_proj.*`],
      parameters: florence && [
        ...florenceProjector(projector, florence),
        ...projection(`${transformer}.vlm_proj`, florence.projection),
      ],
      buffers: florence && [
        {
          name: `${projector}.visual_temporal_embed.pos_idx_to_embed`,
          shape: [florence.temporal, florence.dims.at(-1) ?? 0],
        },
      ],
    }),
    policyModule({
      name: 'language',
      patterns: [`${languageModel}.*`],
      blocks: [`${languageModel}.encoder.layers.*`],
      liveBlocks: [florence?.layers],
      // The embedding is tied to one inside the encoder that is not called; both stay in the unit of the whole policy.
      units: [`${languageModel}.encoder.embed_positions`, `${languageModel}.encoder.layernorm_embedding`],
      frozen: config.freeze_language_encoder,
      parameters: florence && bartEncoder(florence),
      attention: florence && {
        heads: florence.heads,
        keyValueHeads: florence.heads,
        headDim: Math.floor(florence.width / florence.heads),
      },
    }),
    policyModule({
      name: 'policy',
      patterns: ['blocks.*', 'aux_visual_proj.*', 'pos_emb', 'norm.*'].map((name) => `${transformer}.${name}`),
      blocks: [`${transformer}.blocks.*`],
      liveBlocks: [config.depth],
      units: ['aux_visual_proj', 'norm'].map((name) => `${transformer}.${name}`),
      // It projects every image but the first.
      dead: images > 1 ? [] : [`${transformer}.aux_visual_proj.*`],
      frozen: !config.train_policy_transformer,
      parameters: florence && [
        ...Array.from({ length: config.depth }, (_, index) => layer(`${transformer}.blocks.${String(index)}`)).flat(),
        ...projection(`${transformer}.aux_visual_proj`, florence.projection),
        tensor(`${transformer}.pos_emb`, 1, config.max_len_seq, width),
        ...normLayer(`${transformer}.norm`, width),
      ],
      attention: {
        heads: config.num_heads,
        keyValueHeads: config.num_heads,
        headDim: Math.floor(width / config.num_heads),
      },
    }),
    ...(prompts > 0
      ? [
          policyModule({
            name: 'softPrompts',
            patterns: [`${transformer}.soft_prompt_hub.*`],
            units: [`${transformer}.soft_prompt_hub`],
            frozen: !config.train_soft_prompts,
            parameters: [embedding(`${transformer}.soft_prompt_hub`, domains, prompts * width)],
          }),
        ]
      : []),
    policyModule({
      name: 'heads',
      patterns: [`${transformer}.action_encoder.*`, `${transformer}.action_decoder.*`],
      units: [`${transformer}.action_encoder`, `${transformer}.action_decoder`],
      frozen: !config.train_policy_transformer,
      parameters: [
        ...byDomain(`${transformer}.action_encoder`, actionWidth + config.dim_time + stateWidth, width),
        ...byDomain(`${transformer}.action_decoder`, width, actionWidth),
      ],
    }),
  ]
}

/** Florence-2's vision tower (DaViT). */
function davit(root: string, florence: Florence): Parameter[] {
  const parameters: Parameter[] = []
  let inputs = florence.channels
  for (const [stage, width] of florence.dims.entries()) {
    const at = `${root}.convs.${String(stage)}`
    parameters.push(
      ...convLayer(`${at}.conv`, inputs, width, florence.kernels[stage] ?? 0, true),
      ...normLayer(`${at}.norm`, florence.prenorm[stage] === true ? inputs : width),
    )
    const hidden = Math.trunc(width * florence.ratio)
    for (let index = 0; index < (florence.depths[stage] ?? 0); index++)
      for (const [block, attention] of [
        ['spatial_block', 'window_attn'],
        ['channel_block', 'channel_attn'],
      ] as const) {
        const name = `${root}.blocks.${String(stage)}.${String(index)}.${block}`
        parameters.push(
          ...convLayer(`${name}.conv1`, width, width, 3, true, width),
          ...normLayer(`${name}.norm1`, width),
          ...linearLayer(`${name}.${attention}.qkv`, width, 3 * width, florence.qkvBias),
          ...linearLayer(`${name}.${attention}.proj`, width, width),
          ...convLayer(`${name}.conv2`, width, width, 3, true, width),
          ...normLayer(`${name}.norm2`, width),
          ...linearLayer(`${name}.ffn.fc1`, width, hidden),
          ...linearLayer(`${name}.ffn.fc2`, hidden, width),
        )
      }
    inputs = width
  }
  return parameters
}

function florenceProjector(root: string, florence: Florence): Parameter[] {
  const width = florence.dims.at(-1) ?? 0
  const rows = Math.floor(width / 2)
  return [
    ...linearLayer(`${root}.image_projection`, width, florence.projection, false),
    ...normLayer(`${root}.image_proj_norm`, florence.projection),
    embedding(`${root}.image_position_embed.row_embeddings`, florence.positions, rows),
    embedding(`${root}.image_position_embed.column_embeddings`, florence.positions, width - rows),
  ]
}

/** BART's embedding and encoder. */
function bartEncoder({ vocab, width, layers, hidden, textPositions }: Florence): Parameter[] {
  const root = `${languageModel}.encoder`
  const parameters = [
    embedding(`${languageModel}.shared`, vocab, width),
    embedding(`${root}.embed_positions`, textPositions + 2, width), // BART counts positions from 2
    ...normLayer(`${root}.layernorm_embedding`, width),
  ]
  for (let index = 0; index < layers; index++) {
    const layer = `${root}.layers.${String(index)}`
    parameters.push(
      ...['k_proj', 'v_proj', 'q_proj', 'out_proj'].flatMap((name) =>
        linearLayer(`${layer}.self_attn.${name}`, width, width),
      ),
      ...normLayer(`${layer}.self_attn_layer_norm`, width),
      ...linearLayer(`${layer}.fc1`, width, hidden),
      ...linearLayer(`${layer}.fc2`, hidden, width),
      ...normLayer(`${layer}.final_layer_norm`, width),
    )
  }
  return parameters
}

/** Cells of the last map, and one token for their mean; undefined where the images' size is not known or not one. */
function tokensPerImage(config: XvlaConfig, florence: Florence, sizes: ImageSizes | undefined): number | undefined {
  const image = config.resize_imgs_with_padding ?? Object.values(sizes ?? {})[0]
  if (image === undefined) return undefined
  const side = (pixels: number): number =>
    florence.dims.reduce((length, _, stage) => {
      const padded = length + 2 * (florence.paddings[stage] ?? 0) - (florence.kernels[stage] ?? 0)
      return Math.floor(padded / (florence.strides[stage] ?? 1)) + 1
    }, pixels)
  return side(image[0]) * side(image[1]) + 1
}

function lengthProblems(
  config: XvlaConfig,
  sizes: ImageSizes | undefined,
  images: number,
  perImage: number | undefined,
): Problem[] {
  const problems: Problem[] = []
  const [first, ...others] = Object.entries(config.resize_imgs_with_padding === null ? (sizes ?? {}) : {})
  for (const [camera, [height, width]] of others)
    if (first !== undefined && (height !== first[1][0] || width !== first[1][1]))
      problems.push({
        field: 'images',
        message: `X-VLA stacks its images: ${first[0]} has ${first[1].join('x')}, ${camera} ${height}x${width}. resize_imgs_with_padding brings them to one size.`,
      })
  if (perImage === undefined) return problems
  const length = config.chunk_size + perImage * images + config.tokenizer_max_length
  if (length > config.max_len_seq)
    problems.push({
      field: 'max_len_seq',
      message: `${config.chunk_size} actions, ${images} images of ${perImage} tokens and ${config.tokenizer_max_length} tokens of instruction are ${length}, above max_len_seq (${config.max_len_seq}). Smaller images (resize_imgs_with_padding) have fewer tokens.`,
    })
  return problems
}

function xvlaProblems(
  config: XvlaConfig,
  state: number | undefined,
  actions: number | undefined,
  actionWidth: number,
  stateWidth: number,
): Problem[] {
  const problems: Problem[] = []
  const say = (field: string, message: string): void => {
    problems.push({ field, message })
  }
  if (config.hidden_size % config.num_heads !== 0)
    say('num_heads', `num_heads (${config.num_heads}) does not divide hidden_size (${config.hidden_size}).`)
  if (config.use_proprio && state === 0)
    say('use_proprio', "use_proprio shows the robot's state to X-VLA; the data names none.")
  if (config.use_proprio && state !== undefined && state > stateWidth)
    say(
      'max_state_dim',
      `The state has ${state} dimensions, max_state_dim is ${stateWidth}: LeRobot cuts off the rest in silence.`,
    )
  if (actions !== undefined) {
    const { real } = actionModes[config.action_mode]
    if (real === null && actions > actionWidth)
      say(
        'max_action_dim',
        `The action has ${actions} dimensions, max_action_dim is ${actionWidth}: LeRobot cuts off the rest in silence.`,
      )
    if (real !== null && !real.some((width) => width === actions))
      say(
        'action_mode',
        `action_mode '${config.action_mode}' means actions of ${real.join(' or ')} dimensions in a fixed order; these have ${actions}, which LeRobot pads or cuts in silence. 'auto' takes any.`,
      )
  }
  // The grippers' channels are set to zero in the state too, by the indices of the action.
  const smallest = { ee6d: 20, joint: 14 } as const
  if ((config.action_mode === 'ee6d' || config.action_mode === 'joint') && stateWidth < smallest[config.action_mode])
    say(
      'max_state_dim',
      `action_mode '${config.action_mode}' writes to the state's dimension ${smallest[config.action_mode] - 1}: max_state_dim (${stateWidth}) must be at least ${smallest[config.action_mode]}.`,
    )
  if (config.action_mode === 'so101_bimanual' && stateWidth !== 12 && stateWidth !== 20)
    say(
      'max_state_dim',
      `action_mode 'so101_bimanual' takes states of 12 or 20 dimensions: max_state_dim is ${stateWidth}.`,
    )
  return problems
}
