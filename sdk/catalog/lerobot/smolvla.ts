/**
 * SmolVLA in LeRobot 0.6.1: the first layers of SmolVLM2, with an action expert of the same depth that alternates between attending
 * jointly and attending to the language model's keys and values.
 * Source: lerobot/policies/smolvla/configuration_smolvla.py, modeling_smolvla.py, smolvlm_with_expert.py.
 */
import { causalLM, type LanguageFacts } from '../language.ts'
import { below, linearLayer, type Parameter } from '../parameters.ts'
import {
  chunkProblems,
  known,
  oldStatistics,
  paddingProblems,
  policyModule,
  siglip,
  stateProblems,
  undescribed,
  type PolicyDescription,
  type PolicyFacts,
  type PolicyModule,
} from './facts.ts'
import {
  anyInteger,
  anyLayerCount,
  boolean,
  choice,
  count,
  integer,
  managed,
  modes,
  number,
  objectOrNull,
  pair,
  readConfig,
  size,
  text,
  type Fields,
  type ManagedFields,
  type Problem,
  type Values,
} from './fields.ts'

/**
 * The numbers of the published config of HuggingFaceTB/SmolVLM2-500M-Video-Instruct that shapes depend on. With them the catalog counts
 * its 507,482,304 parameters, and the 450,046,176 of lerobot/smolvla_base, as LeRobot reports both.
 */
export const smolvlm2 = {
  name: 'HuggingFaceTB/SmolVLM2-500M-Video-Instruct',
  config: {
    model_type: 'smolvlm',
    scale_factor: 4,
    image_token_id: 49_190,
    tie_word_embeddings: false,
    text_config: {
      model_type: 'llama',
      vocab_size: 49_280,
      hidden_size: 960,
      intermediate_size: 2560,
      num_hidden_layers: 32,
      num_attention_heads: 15,
      num_key_value_heads: 5,
      head_dim: 64,
      rms_norm_eps: 1e-5,
      rope_theta: 100_000,
      max_position_embeddings: 8192,
      pad_token_id: 2,
      tie_word_embeddings: false,
    },
    vision_config: {
      model_type: 'smolvlm_vision',
      hidden_size: 768,
      intermediate_size: 3072,
      num_hidden_layers: 12,
      num_attention_heads: 12,
      image_size: 512,
      patch_size: 16,
    },
  },
  parameters: 507_482_304,
} as const

/** Fields of `SmolVLAConfig` that a user sets. */
export const smolvlaFields = {
  /** Actions per prediction. @default 50 */
  chunk_size: integer(50),
  /** Actions of a prediction that are executed before the next one. @default 50 */
  n_action_steps: integer(50),
  /** Width to which states are padded. @default 32 */
  max_state_dim: integer(32),
  /** Width to which actions are padded. @default 32 */
  max_action_dim: integer(32),
  /** Width and height to which images are resized, with padding. @default [512, 512] */
  resize_imgs_with_padding: size([512, 512]),
  /** Cameras that the policy has and the data has not: black and masked. @default 0 */
  empty_cameras: count(0),
  /** Joints and grippers of Aloha in the space of the base model. @default false */
  adapt_to_pi_aloha: boolean(false),
  /** Tokens of the instruction at most. @default 48 */
  tokenizer_max_length: integer(48),
  /** Integration steps at inference. @default 10 */
  num_steps: integer(10),
  /** Keep the keys and values of images and language between the integration steps. @default true */
  use_cache: boolean(true),
  /** Hub id or directory of the vision-language model. @default 'HuggingFaceTB/SmolVLM2-500M-Video-Instruct' */
  vlm_model_name: text(smolvlm2.name),
  /** Start from the vision-language model's weights where no policy's weights are loaded. @default false */
  load_vlm_weights: boolean(false),
  /** Tokens that open and close each image. @default false */
  add_image_special_tokens: boolean(false),
  /** `cross_attn`: expert layers attend to the language model's keys and values; `self_attn`: all attend jointly. @default 'cross_attn' */
  attention_mode: choice(['cross_attn', 'self_attn'], 'cross_attn'),
  /** Length to which images, instruction and state are padded; -1: not padded. @default -1 */
  prefix_length: anyInteger(-1),
  /** Instructions are padded to the longest of a batch, or to `tokenizer_max_length`. @default 'longest' */
  pad_language_to: choice(['longest', 'max_length'], 'longest'),
  /** Layers of the expert; 0 and below: as many as the language model has. @default -1 */
  num_expert_layers: anyLayerCount(-1),
  /** Layers of the language model that are kept; 0 and below: all. @default 16 */
  num_vlm_layers: anyLayerCount(16),
  /** With `cross_attn`, each so-many-th layer attends jointly; 0 and below: none does. @default 2 */
  self_attn_every_n_layers: anyInteger(2),
  /** Width of the expert as a share of the language model's. @default 0.75 */
  expert_width_multiplier: number(0.75),
  /** Shortest period of the embedding of the time. @default 0.004 */
  min_period: number(4e-3),
  /** Longest period of the embedding of the time. @default 4 */
  max_period: number(4),
  /** Real-time chunking at inference. @default null (off) */
  rtc_config: objectOrNull(null),
} as const satisfies Fields

/** Fields of `SmolVLAConfig` that the pipeline decides. */
export const smolvlaManaged = {
  n_obs_steps: managed(integer(1), 'fixed: one frame'),
  normalization_mapping: managed(modes({ VISUAL: 'IDENTITY', STATE: 'MEAN_STD', ACTION: 'MEAN_STD' }), 'normalize'),
  use_delta_joint_actions_aloha: managed(boolean(false), 'fixed: LeRobot has not ported it'),
  freeze_vision_encoder: managed(boolean(true), 'modules.vision: freeze'),
  train_expert_only: managed(boolean(true), 'modules: freeze'),
  train_state_proj: managed(boolean(true), 'modules.heads: freeze'),
  optimizer_lr: managed(number(1e-4), 'training: lr'),
  optimizer_betas: managed(pair([0.9, 0.95]), 'training: optimizer'),
  optimizer_eps: managed(number(1e-8), 'training: optimizer'),
  optimizer_weight_decay: managed(number(1e-10), 'training: weightDecay'),
  optimizer_grad_clip_norm: managed(number(10), 'training: clip'),
  scheduler_warmup_steps: managed(count(1000), 'training: schedule'),
  scheduler_decay_steps: managed(integer(30_000), 'training: schedule'),
  scheduler_decay_lr: managed(number(2.5e-6), 'training: schedule'),
  compile_model: managed(boolean(false), 'fixed: nothing is compiled'),
  compile_mode: managed(text('max-autotune'), 'fixed: nothing is compiled'),
} as const satisfies ManagedFields

type SmolVLAConfig = Values<typeof smolvlaFields & typeof smolvlaManaged>

/** What shapes depend on in the vision-language model. */
interface Base {
  readonly language: LanguageFacts
  readonly textConfig: Readonly<Record<string, unknown>>
  readonly keyValueHeads: number
  readonly headDim: number
  readonly vision: { readonly width: number; readonly hidden: number; readonly layers: number; readonly patch: number }
  readonly visionHeads: number
  readonly positions: number
  readonly scale: number
  readonly tied: boolean
}

const model = 'model.vlm_with_expert'
const vlm = `${model}.vlm`
const trunk = `${vlm}.model.text_model`
const expert = `${model}.lm_expert`

/** Reads a config of SmolVLM; undefined where it is not one, or where something in it is not understood. */
function readBase(config: Readonly<Record<string, unknown>>, kept: number): Base | undefined {
  const part = (key: string): Readonly<Record<string, unknown>> =>
    typeof config[key] === 'object' && config[key] !== null ? (config[key] as Readonly<Record<string, unknown>>) : {}
  const text = { model_type: 'llama', ...part('text_config') }
  const described = causalLM(text, { head: false })
  if (config['model_type'] !== 'smolvlm' || described === undefined) return undefined
  const layers = kept > 0 ? Math.min(kept, described.layers) : described.layers
  const language = causalLM({ ...text, num_hidden_layers: layers }, { head: false })
  if (language === undefined) return undefined
  const vision = part('vision_config')
  const sizes = {
    width: vision['hidden_size'] ?? 1152,
    hidden: vision['intermediate_size'] ?? 3072,
    layers: vision['num_hidden_layers'] ?? 12,
    heads: vision['num_attention_heads'] ?? 16,
    patch: vision['patch_size'] ?? 32,
    image: vision['image_size'] ?? 224,
    scale: config['scale_factor'] ?? 2,
    keyValueHeads: 'num_key_value_heads' in text ? text.num_key_value_heads : language.heads,
    headDim: 'head_dim' in text ? text.head_dim : Math.floor(language.hidden / language.heads),
  }
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) > 0
  const { width, hidden, heads, patch, image, scale, keyValueHeads, headDim } = sizes
  if (
    !isCount(width) ||
    !isCount(hidden) ||
    !isCount(sizes.layers) ||
    !isCount(heads) ||
    !isCount(patch) ||
    !isCount(image) ||
    !isCount(scale) ||
    !isCount(keyValueHeads) ||
    !isCount(headDim)
  )
    return undefined
  return {
    language,
    textConfig: text,
    keyValueHeads,
    headDim,
    vision: { width, hidden, layers: sizes.layers, patch },
    visionHeads: heads,
    positions: Math.floor(image / patch) ** 2,
    scale,
    tied: config['tie_word_embeddings'] === true,
  }
}

/** Facts of a SmolVLA policy. */
export function smolvla(description: PolicyDescription): PolicyFacts {
  const { values: config, problems } = readConfig('smolvla', smolvlaFields, smolvlaManaged, description.config)
  const given = known(description.base)
  const baseConfig = given ?? (config.vlm_model_name === smolvlm2.name ? smolvlm2.config : undefined)
  const base = baseConfig === undefined ? undefined : readBase(baseConfig, config.num_vlm_layers)
  const state = known(description.stateDim)
  const layers = base?.language.layers
  const expertLayers = config.num_expert_layers > 0 ? config.num_expert_layers : layers
  const every = layers === undefined || expertLayers === undefined ? undefined : Math.floor(layers / expertLayers)
  const modules = smolvlaModules(config, base, layers, expertLayers, every)
  const [imageWidth, imageHeight] = config.resize_imgs_with_padding
  return {
    type: 'smolvla',
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
      lrFactors: {},
      weightDecayFactors: {},
      schedule: {
        kind: 'cosineDecay',
        warmup: config.scheduler_warmup_steps,
        decay: config.scheduler_decay_steps,
        floor: config.scheduler_decay_lr / config.optimizer_lr,
      },
      source: 'lerobot/policies/smolvla/configuration_smolvla.py',
    },
    chunk: config.chunk_size,
    actionSteps: config.n_action_steps,
    observationSteps: 1,
    firstAction: 0,
    padded: { state: config.max_state_dim, action: config.max_action_dim },
    mask: { kind: 'blockCausal', blocks: [['images', 'language'], ['state'], ['actions']], actions: 'causal' },
    joint: { trunk: `${trunk}.layers.*`, expert: `${expert}.layers.*`, every: every ?? 1 },
    sequence: {
      perImage:
        base === undefined
          ? undefined
          : Math.floor(
              (Math.floor(imageWidth / base.vision.patch) * Math.floor(imageHeight / base.vision.patch)) /
                base.scale ** 2,
            ) + (config.add_image_special_tokens ? 3 : 0),
      images: description.cameras.length + config.empty_cameras,
      language: config.tokenizer_max_length,
      state: 1,
      actions: config.chunk_size,
    },
    weights: {
      missing: [{ key: `${vlm}.lm_head.weight`, because: 'it is never used' }],
      unexpected: oldStatistics,
      tied: base?.tied === true ? [[`${trunk}.embed_tokens.weight`, `${vlm}.lm_head.weight`]] : [],
    },
    batchNorm: [],
    problems: [
      ...problems,
      ...chunkProblems(config.n_action_steps, 'chunk_size', config.chunk_size),
      ...stateProblems('smolvla', state),
      ...paddingProblems('state', state, config.max_state_dim, 'the projection does not fit'),
      ...paddingProblems('action', known(description.actionDim), config.max_action_dim, 'the projection does not fit'),
      ...smolvlaProblems(config, baseConfig !== undefined && base === undefined, layers, expertLayers, every),
    ],
  }
}

/** Whether the trunk's layer attends jointly with the expert, instead of by itself with the expert looking on. */
function attendsJointly(config: SmolVLAConfig, layer: number): boolean {
  const every = config.self_attn_every_n_layers
  return config.attention_mode === 'self_attn' || (every > 0 && layer % every === 0)
}

function smolvlaModules(
  config: SmolVLAConfig,
  base: Base | undefined,
  layers: number | undefined,
  expertLayers: number | undefined,
  every: number | undefined,
): PolicyModule[] {
  const hidden = base?.language.hidden
  const width = hidden === undefined ? undefined : Math.trunc(hidden * config.expert_width_multiplier)
  const tower = `${vlm}.model.vision_model`
  const connector = `${vlm}.model.connector`
  const attention = base && { heads: base.language.heads, keyValueHeads: base.keyValueHeads, headDim: base.headDim }

  // The deepest trunk layer whose keys and values the expert sees; what comes behind them reaches no loss.
  const last = expertLayers === undefined || every === undefined ? undefined : (expertLayers - 1) * every
  const dead: string[] = [`${vlm}.lm_head.*`, `${trunk}.norm.*`]
  const frozenParts: string[] = [`${vlm}.lm_head.*`, `${trunk}.norm.*`]
  if (base?.tied === true) dead.shift() // the head is the embedding
  if (last !== undefined && layers !== undefined) {
    const deepest = `${trunk}.layers.${String(last)}`
    dead.push(
      ...['self_attn.q_proj', 'self_attn.o_proj', 'mlp', 'post_attention_layernorm'].map(
        (part) => `${deepest}.${part}.*`,
      ),
    )
    for (let layer = last + 1; layer < layers; layer++) dead.push(`${trunk}.layers.${String(layer)}.*`)
    frozenParts.push(`${trunk}.layers.${String(layers - 1)}.*`)
    if (layers !== expertLayers) frozenParts.push(`${trunk}.layers.${String(layers - 2)}.*`)
  }
  const heads = ['state_proj', 'action_in_proj', 'action_out_proj', 'action_time_mlp_in', 'action_time_mlp_out']
  return [
    policyModule({
      name: 'vision',
      patterns: [`${tower}.*`],
      blocks: [`${tower}.encoder.layers.*`],
      liveBlocks: [base?.vision.layers],
      units: [tower],
      frozen: config.freeze_vision_encoder || config.train_expert_only,
      parameters: base && below(tower, siglip({ ...base.vision, positions: base.positions })),
      attention: base && {
        heads: base.visionHeads,
        keyValueHeads: base.visionHeads,
        headDim: Math.floor(base.vision.width / base.visionHeads),
      },
    }),
    policyModule({
      name: 'projector',
      patterns: [`${connector}.*`],
      units: [connector],
      frozen: config.train_expert_only,
      parameters:
        base &&
        linearLayer(
          `${connector}.modality_projection.proj`,
          base.vision.width * base.scale ** 2,
          base.language.hidden,
          false,
        ),
    }),
    policyModule({
      name: 'language',
      patterns: [`${trunk}.*`, `${vlm}.lm_head.*`],
      dead,
      blocks: [`${trunk}.layers.*`],
      liveBlocks: [last === undefined ? undefined : last + 1],
      units: [`${trunk}.embed_tokens`, `${trunk}.norm`],
      frozen: config.train_expert_only,
      frozenParts: config.train_expert_only ? [] : frozenParts,
      parameters: base && [
        ...(base.tied ? [] : linearLayer(`${vlm}.lm_head`, base.language.hidden, base.language.vocab, false)),
        ...base.language.parameters.map((parameter) => ({
          ...parameter,
          name: parameter.name.replace(/^model\./, `${trunk}.`),
        })),
      ],
      attention,
    }),
    policyModule({
      name: 'expert',
      patterns: [`${expert}.*`],
      blocks: [`${expert}.layers.*`],
      liveBlocks: [expertLayers],
      units: [`${expert}.norm`],
      parameters:
        base === undefined || width === undefined || expertLayers === undefined
          ? undefined
          : below(expert, expertParameters(config, base, width, expertLayers)),
      attention,
    }),
    policyModule({
      name: 'heads',
      patterns: ['model.state_proj.*', 'model.action_*'],
      units: heads.map((name) => `model.${name}`),
      frozenParts: config.train_state_proj ? [] : ['model.state_proj.*'],
      parameters:
        hidden === undefined || width === undefined
          ? undefined
          : [
              ...linearLayer('model.state_proj', config.max_state_dim, hidden),
              ...linearLayer('model.action_in_proj', config.max_action_dim, width),
              ...linearLayer('model.action_out_proj', width, config.max_action_dim),
              ...linearLayer('model.action_time_mlp_in', 2 * width, width),
              ...linearLayer('model.action_time_mlp_out', width, width),
            ],
    }),
  ]
}

/** The expert: a narrower Llama without embedding, some of whose keys and values are made from the trunk's. */
function expertParameters(config: SmolVLAConfig, base: Base, width: number, layers: number): Parameter[] {
  const described = causalLM(
    {
      ...base.textConfig,
      hidden_size: width,
      // get_intermediate_size: 4 x 2/3 of the width, rounded up to a multiple of 256.
      intermediate_size: 256 * Math.ceil(Math.trunc(4 * Math.trunc((2 * width) / 3)) / 256),
      num_hidden_layers: layers,
      num_key_value_heads: base.keyValueHeads,
      head_dim: base.headDim,
    },
    { head: false },
  )
  const keysAndValues = base.keyValueHeads * base.headDim
  return (described?.parameters ?? [])
    .filter(({ name }) => name !== 'model.embed_tokens.weight')
    .map((parameter) => {
      const name = parameter.name.replace(/^model\./, '')
      const layer = /^layers\.(\d+)\.self_attn\.[kv]_proj\.weight$/.exec(name)?.[1]
      const crosses = layer !== undefined && !attendsJointly(config, Number(layer))
      return crosses ? { ...parameter, name, shape: [keysAndValues, keysAndValues] } : { ...parameter, name }
    })
}

function smolvlaProblems(
  config: SmolVLAConfig,
  notUnderstood: boolean,
  layers: number | undefined,
  expertLayers: number | undefined,
  every: number | undefined,
): Problem[] {
  const problems: Problem[] = []
  const say = (field: string, message: string): void => {
    problems.push({ field, message })
  }
  if (notUnderstood)
    say(
      'vlm_model_name',
      `${config.vlm_model_name} has a config that SmolVLA cannot be built on: model_type 'smolvlm' is needed.`,
    )
  if (config.use_delta_joint_actions_aloha)
    say('use_delta_joint_actions_aloha', 'LeRobot has not ported use_delta_joint_actions_aloha and refuses it.')
  if (layers === undefined || expertLayers === undefined || every === undefined) return problems
  if (expertLayers > layers || layers % expertLayers !== 0)
    say(
      'num_expert_layers',
      `num_expert_layers (${expertLayers}) does not divide the ${layers} layers of the language model.`,
    )
  else {
    // LeRobot widens keys and values by the expert's own layer number, but attends by the trunk's.
    const wrong = Array.from({ length: expertLayers }, (_, layer) => layer).find(
      (layer) => attendsJointly(config, layer) !== attendsJointly(config, layer * every),
    )
    if (wrong !== undefined)
      say(
        'num_expert_layers',
        `With ${expertLayers} expert layers for ${layers} layers of the language model, LeRobot gives expert layer ${wrong} keys and values of the wrong width; set self_attn_every_n_layers so that layers ${wrong} and ${wrong * every} attend alike.`,
      )
  }
  return problems
}
