/**
 * What pi0 and pi0.5 share in LeRobot 0.6.1: PaliGemma with an action expert that attends jointly, layer by layer.
 * Source: lerobot/policies/pi0/modeling_pi0.py, lerobot/policies/pi05/modeling_pi05.py, lerobot/policies/pi_gemma.py.
 */
import { causalLM } from '../language.ts'
import { below, linearLayer, type Parameter } from '../parameters.ts'
import { policyModule, siglip, type PolicyModule } from './facts.ts'
import {
  boolean,
  choice,
  integer,
  managed,
  number,
  objectOrNull,
  pair,
  size,
  count,
  text,
  texts,
  textsOrNull,
  type Fields,
  type ManagedFields,
  type Problem,
  type Values,
} from './fields.ts'

/** Gemma by openpi's names (`get_gemma_config`). */
const gemma = {
  gemma_300m: { width: 1024, layers: 18, hidden: 4096 },
  gemma_2b: { width: 2048, layers: 18, hidden: 16_384 },
} as const
const variants = ['gemma_300m', 'gemma_2b'] as const
/** Of both variants. */
export const gemmaAttention = { heads: 8, keyValueHeads: 1, headDim: 256 } as const
const vocabulary = 257_152
/** Of the vision tower's output, whatever the language model's width. */
const projection = 2048
const vision = { width: 1152, hidden: 4304, layers: 27, patch: 14 } as const
const attentionOfVision = { heads: 16, keyValueHeads: 16, headDim: 72 } as const

/** Fields that a user sets in both. */
export const piFields = {
  /** Size of the language model. @default 'gemma_2b' */
  paligemma_variant: choice(variants, 'gemma_2b'),
  /** Size of the action expert. @default 'gemma_300m' */
  action_expert_variant: choice(variants, 'gemma_300m'),
  /** Actions per prediction (openpi: action_horizon). @default 50 */
  chunk_size: integer(50),
  /** Actions of a prediction that are executed before the next one. @default 50 */
  n_action_steps: integer(50),
  /** Width to which states are padded. @default 32 */
  max_state_dim: integer(32),
  /** Width to which actions are padded. @default 32 */
  max_action_dim: integer(32),
  /** Integration steps at inference. @default 10 */
  num_inference_steps: integer(10),
  /** Exponent alpha of the times, which are Beta(alpha, beta) * scale + offset. @default 1.5 */
  time_sampling_beta_alpha: number(1.5),
  /** Exponent beta of the times' distribution. @default 1 */
  time_sampling_beta_beta: number(1),
  /** Scale of the times. @default 0.999 */
  time_sampling_scale: number(0.999),
  /** Offset of the times: none is below it. @default 0.001 */
  time_sampling_offset: number(0.001),
  /** Shortest period of the embedding of the time. @default 0.004 */
  min_period: number(4e-3),
  /** Longest period of the embedding of the time. @default 4 */
  max_period: number(4),
  /** Actions relative to the present state (openpi: DeltaActions). @default false */
  use_relative_actions: boolean(false),
  /** Joints that stay absolute, by parts of their names. @default ['gripper'] */
  relative_exclude_joints: texts(['gripper']),
  /** Height and width to which images are resized, with padding; square. @default [224, 224] */
  image_resolution: size([224, 224]),
  /** Cameras that the policy has and the data has not: black and masked. @default 0 */
  empty_cameras: count(0),
  /** Real-time chunking at inference. @default null (off) */
  rtc_config: objectOrNull(null),
} as const satisfies Fields

/** Fields that the pipeline decides in both. */
export const piManaged = {
  n_obs_steps: managed(integer(1), 'fixed: one frame'),
  dtype: managed(choice(['bfloat16', 'float32'], 'float32'), 'modules: dtype and storage'),
  action_feature_names: managed(textsOrNull(null), 'data: names of the action'),
  gradient_checkpointing: managed(boolean(false), 'modules: recompute'),
  compile_model: managed(boolean(false), 'fixed: nothing is compiled'),
  compile_mode: managed(text('max-autotune'), 'fixed: nothing is compiled'),
  freeze_vision_encoder: managed(boolean(false), 'modules.vision: freeze'),
  train_expert_only: managed(boolean(false), 'modules: freeze'),
  optimizer_lr: managed(number(2.5e-5), 'training: lr'),
  optimizer_betas: managed(pair([0.9, 0.95]), 'training: optimizer'),
  optimizer_eps: managed(number(1e-8), 'training: optimizer'),
  optimizer_weight_decay: managed(number(0.01), 'training: weightDecay'),
  optimizer_grad_clip_norm: managed(number(1), 'training: clip'),
  scheduler_warmup_steps: managed(count(1000), 'training: schedule'),
  scheduler_decay_steps: managed(integer(30_000), 'training: schedule'),
  scheduler_decay_lr: managed(number(2.5e-6), 'training: schedule'),
} as const satisfies ManagedFields

export type PiConfig = Values<typeof piFields & typeof piManaged>

const root = 'model.paligemma_with_expert'
const paligemma = `${root}.paligemma`
const trunk = `${paligemma}.model.language_model`
const expert = `${root}.gemma_expert`

/** The pair of stacks whose layers run together. */
export const piJoint = { trunk: `${trunk}.layers.*`, expert: `${expert}.model.layers.*`, every: 1 } as const

/** Keys of a pretrained file that may differ. */
export const piMissing = [
  {
    key: `${trunk}.embed_tokens.weight`,
    from: `${paligemma}.lm_head.weight`,
    because: 'files that hold the tied tensor once keep it as the head',
  },
  { key: `${paligemma}.lm_head.weight`, because: 'it is never used' },
  { key: `${expert}.lm_head.weight`, because: 'it is never used' },
] as const

/** A Gemma decoder below `model`, without its head. */
function decoder(variant: keyof typeof gemma, adaptive: boolean): readonly Parameter[] {
  const { width, layers, hidden } = gemma[variant]
  const { heads, keyValueHeads, headDim } = gemmaAttention
  const described = causalLM(
    {
      model_type: 'gemma',
      vocab_size: vocabulary,
      hidden_size: width,
      intermediate_size: hidden,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      num_key_value_heads: keyValueHeads,
      head_dim: headDim,
    },
    { head: false },
  )
  const parameters = described?.parameters ?? []
  if (!adaptive) return parameters
  // Each norm takes scale, shift and gate from the embedding of the time (adaRMS).
  return parameters.flatMap((parameter) =>
    parameter.name.endsWith('norm.weight')
      ? linearLayer(`${parameter.name.slice(0, -'.weight'.length)}.dense`, width, 3 * width)
      : [parameter],
  )
}

/** The modules before the heads. */
export function piModules(config: PiConfig, adaptive: boolean): PolicyModule[] {
  const language = gemma[config.paligemma_variant]
  const acting = gemma[config.action_expert_variant]
  const last = `${trunk}.layers.${String(language.layers - 1)}`
  const [side] = config.image_resolution
  const tower = `${paligemma}.model.vision_tower`
  const projector = `${paligemma}.model.multi_modal_projector`
  return [
    policyModule({
      name: 'vision',
      patterns: [`${tower}.*`],
      blocks: [`${tower}.vision_model.encoder.layers.*`],
      liveBlocks: [vision.layers],
      units: [tower],
      frozen: config.freeze_vision_encoder || config.train_expert_only,
      parameters: below(
        `${tower}.vision_model`,
        siglip({ ...vision, positions: Math.floor(side / vision.patch) ** 2 }),
      ),
      attention: attentionOfVision,
    }),
    policyModule({
      name: 'projector',
      patterns: [`${projector}.*`],
      units: [projector],
      frozen: config.train_expert_only,
      parameters: linearLayer(`${projector}.linear`, vision.width, projection),
    }),
    policyModule({
      name: 'language',
      patterns: [`${trunk}.*`, `${paligemma}.lm_head.*`],
      // Of the last layer only keys and values reach the loss, by way of the expert.
      dead: [
        `${paligemma}.lm_head.*`,
        `${last}.self_attn.q_proj.*`,
        `${last}.self_attn.o_proj.*`,
        `${last}.mlp.*`,
        `${last}.post_attention_layernorm.*`,
        `${trunk}.norm.*`,
      ],
      blocks: [piJoint.trunk],
      liveBlocks: [language.layers],
      units: [`${trunk}.embed_tokens`, `${trunk}.norm`],
      frozen: config.train_expert_only,
      parameters: [
        ...linearLayer(`${paligemma}.lm_head`, language.width, vocabulary, false),
        ...decoder(config.paligemma_variant, false).map((parameter) => ({
          ...parameter,
          name: parameter.name.replace(/^model\./, `${trunk}.`),
        })),
      ],
      attention: gemmaAttention,
    }),
    policyModule({
      name: 'expert',
      patterns: [`${expert}.*`],
      dead: [`${expert}.lm_head.*`],
      blocks: [piJoint.expert],
      liveBlocks: [acting.layers],
      units: [`${expert}.model.norm`],
      parameters: [
        ...linearLayer(`${expert}.lm_head`, acting.width, vocabulary, false),
        ...below(
          expert,
          decoder(config.action_expert_variant, adaptive).filter(({ name }) => name !== 'model.embed_tokens.weight'),
        ),
      ],
      attention: gemmaAttention,
    }),
  ]
}

/** Linear layers of the expert's width. */
export function expertWidth(config: PiConfig): number {
  return gemma[config.action_expert_variant].width
}

/** Tokens per image. */
export function piTokens(config: PiConfig): number {
  return Math.floor(config.image_resolution[0] / vision.patch) ** 2
}

/** What both refuse. */
export function piProblems(config: PiConfig): Problem[] {
  const problems: Problem[] = []
  const [height, width] = config.image_resolution
  if (height !== width)
    problems.push({ field: 'image_resolution', message: `image_resolution is square, not ${height}x${width}.` })
  if (config.paligemma_variant !== 'gemma_2b')
    problems.push({
      field: 'paligemma_variant',
      message: `LeRobot projects images to ${projection} channels whatever the variant; ${config.paligemma_variant} has ${gemma[config.paligemma_variant].width}.`,
    })
  return problems
}
