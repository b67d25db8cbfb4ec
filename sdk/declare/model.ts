/** Which VLA: an own one, composed of parts, or a published family. */
import * as z from 'zod'

import { MOST_LAYERS } from '../catalog/language.ts'
import type { TimmArchitecture } from '../catalog/timm.ts'
import type { CheckMask, TimmTraits, Traits } from './check.ts'
import { jsonRecord, positive, text, type Json } from './common.ts'
import { policySchemas, type PolicyModel } from './policies.ts'
import type { ModelShape } from './shape.ts'

// Vision

export interface TimmVisionOptions {
  /**
   * Pretrained weights: a file or directory, relative to pipeline.ts.
   * @default initialised from the seed
   */
  readonly weights?: string
  /**
   * Side of the square input in pixels.
   * @default the model's own
   */
  readonly imageSize?: number
  /**
   * `'tokens'`: patch tokens of a ViT; `'map'`: feature map of a convolutional network.
   * @default by the model
   */
  readonly output?: 'tokens' | 'map'
  /**
   * `'tokens'`: block whose output is taken, from the end. `'map'`: stage.
   * @default -2 (Prismatic), or the last stage
   */
  readonly layer?: number
  /**
   * `'group'` replaces BatchNorm by GroupNorm, whose result does not depend on the batch.
   * @default 'native'
   */
  readonly norm?: 'native' | 'group'
  /**
   * Further keyword arguments of `timm.create_model`.
   * @default none
   */
  readonly options?: Readonly<Record<string, Json>>
}
export interface TimmVision<Name extends string = string> extends TimmVisionOptions {
  readonly kind: 'timm'
  /** timm's name, with or without a pretrained tag: `'vit_so400m_patch14_siglip_224'`. */
  readonly name: Name
}

export interface TransformersVisionOptions {
  /**
   * Revision on the hub: a commit, tag or branch.
   * @default the hub's main branch
   */
  readonly revision?: string
  /**
   * Side of the square input in pixels.
   * @default the model's own
   */
  readonly imageSize?: number
  /**
   * Layer whose hidden states are taken, from the end.
   * @default -1
   */
  readonly layer?: number
}
export interface TransformersVision extends TransformersVisionOptions {
  readonly kind: 'transformers'
  /** Directory or hub id. */
  readonly source: string
}

export type Tower = TimmVision | TransformersVision

export interface FusedOptions {
  /**
   * Concatenate the towers' features on channels (Prismatic, OpenVLA) or in sequence.
   * @default 'channels'
   */
  readonly on?: 'channels' | 'sequence'
}
export interface FusedVision<T extends readonly Tower[] = readonly Tower[]> extends FusedOptions {
  readonly kind: 'fused'
  /** The towers, in the order of their features. */
  readonly towers: T
}

export type Vision = Tower | FusedVision

/** A vision tower from timm. */
export function timmVision<const Name extends TimmArchitecture | (string & {})>(
  name: Name,
  options?: TimmVisionOptions,
): TimmVision<Name> {
  return { kind: 'timm', name, ...options }
}

/** A vision tower from transformers, by directory or hub id. */
export function transformersVision(source: string, options?: TransformersVisionOptions): TransformersVision {
  return { kind: 'transformers', source, ...options }
}

/** Several towers on the same image. */
export function fused<const T extends readonly Tower[]>(towers: T, options?: FusedOptions): FusedVision<T> {
  return { kind: 'fused', towers, ...options }
}

// Projector

export interface MlpProjector {
  readonly kind: 'mlp'
  /** Linear layers, the last to the trunk's width. */
  readonly layers: number
}
export interface SpatialSoftArgmaxProjector {
  readonly kind: 'spatialSoftArgmax'
  /** Key points per image. */
  readonly points: number
}

export type Projector =
  { readonly kind: 'linear' } | MlpProjector | { readonly kind: 'fusedMlp' } | SpatialSoftArgmaxProjector

/** One linear layer from the vision width to the trunk's. */
export function linear(): Projector {
  return { kind: 'linear' }
}

/** `layers` linear layers with GELU between. */
export function mlp(options: Pick<MlpProjector, 'layers'>): Projector {
  return { kind: 'mlp', ...options }
}

/** Prismatic's fused projector: d -> 4d -> h -> h with GELU between. */
export function fusedMlp(): Projector {
  return { kind: 'fusedMlp' }
}

/** Key points of a feature map (expected coordinates under a spatial softmax), then one linear layer to one token. Needs `output: 'map'`. */
export function spatialSoftArgmax(options: Pick<SpatialSoftArgmaxProjector, 'points'>): Projector {
  return { kind: 'spatialSoftArgmax', ...options }
}

// Language

/** A transformers config of a causal language model. */
export type LanguageConfig = {
  /** transformers' name of the architecture, as in config.json: `'llama'`. */
  readonly model_type: string
} & Readonly<Record<string, Json>>

export interface PretrainedLM {
  readonly kind: 'causalLM'
  /** Directory or hub id. */
  readonly source: string
  /**
   * Revision on the hub: a commit, tag or branch.
   * @default the hub's main branch
   */
  readonly revision?: string
}
export interface ConfiguredLM {
  readonly kind: 'causalLM'
  /** transformers config with `model_type`, as in config.json. Initialised from the seed. */
  readonly config: LanguageConfig
  /**
   * `'bytes'`: a byte-level tokenizer written beside the model.
   * @default 'bytes'
   */
  readonly tokenizer?: 'bytes'
}

export type Language = PretrainedLM | ConfiguredLM

/** Any transformers causal language model: pretrained, by directory or hub id. */
export function causalLM(source: string, options?: Pick<PretrainedLM, 'revision'>): PretrainedLM
/** Any transformers causal language model: built from a config and initialised from the seed. */
export function causalLM(options: Pick<ConfiguredLM, 'config' | 'tokenizer'>): ConfiguredLM
export function causalLM(
  source: string | Pick<ConfiguredLM, 'config' | 'tokenizer'>,
  options?: Pick<PretrainedLM, 'revision'>,
): Language {
  return typeof source === 'string' ? { kind: 'causalLM', source, ...options } : { kind: 'causalLM', ...source }
}

// Action

export interface TokensOptions {
  /**
   * Actions per prediction.
   * @default 1 (OpenVLA)
   */
  readonly chunk?: number
  /**
   * Bins per action dimension, the last entries of the vocabulary.
   * @default 256 (OpenVLA)
   */
  readonly bins?: number
}
export interface TokensAction extends TokensOptions {
  readonly kind: 'tokens'
}
export interface RegressionOptions {
  /** Actions per prediction. OpenVLA-OFT: 8 on LIBERO, 25 on ALOHA, 5 on Bridge. */
  readonly chunk: number
  /**
   * Width of the head.
   * @default the trunk's (OpenVLA-OFT)
   */
  readonly hidden?: number
  /**
   * Residual blocks of the head.
   * @default 2 (OpenVLA-OFT)
   */
  readonly blocks?: number
}
export interface RegressionAction extends RegressionOptions {
  readonly kind: 'regression'
}
export interface JointFlowOptions {
  /**
   * How the actions see the trunk: `'cross'`, attention to its last hidden states (GR00T); `'joint'`, an action expert that attends to
   * the trunk's keys and values at every layer (pi0).
   */
  readonly attention: 'joint'
  /** Width of the expert, even; any, whatever the trunk's. pi0: 1024. */
  readonly hidden: number
  /**
   * Inner width of its MLPs.
   * @default four times `hidden` (pi0: 4096)
   */
  readonly mlp?: number
  /** Actions per prediction. openpi: 50. */
  readonly chunk: number
  /**
   * Layers of the expert. Joint attention needs as many as the trunk has.
   * @default the trunk's
   */
  readonly layers?: number
  /**
   * Attention heads of the expert. Joint attention needs as many as the trunk has.
   * @default the trunk's
   */
  readonly heads?: number
  /**
   * Euler steps at inference.
   * @default 10 (openpi)
   */
  readonly steps?: number
}
export interface CrossFlowOptions {
  /**
   * How the actions see the trunk: `'cross'`, attention to its last hidden states (GR00T); `'joint'`, an action expert that attends to
   * the trunk's keys and values at every layer (pi0).
   * @default 'cross'
   */
  readonly attention?: 'cross'
  /** Blocks of the action transformer. */
  readonly layers: number
  /** Its width, even. */
  readonly hidden: number
  /** Actions per prediction. openpi: 50. */
  readonly chunk: number
  /**
   * Attention heads; they divide `hidden`.
   * @default heads of 64 channels or, where they do not divide, more
   */
  readonly heads?: number
  /**
   * Euler steps at inference.
   * @default 10 (openpi)
   */
  readonly steps?: number
  /** Of a joint expert alone. */
  readonly mlp?: never
}
export type FlowMatchingOptions = JointFlowOptions | CrossFlowOptions
export type FlowMatchingAction = FlowMatchingOptions & { readonly kind: 'flowMatching' }

export type Action = TokensAction | RegressionAction | FlowMatchingAction

/** Discrete action tokens (OpenVLA): bins over the last entries of the vocabulary; causal, read by the language head. */
export function tokens(options?: TokensOptions): TokensAction {
  return { kind: 'tokens', ...options }
}

/** L1 regression with parallel decoding (OpenVLA-OFT): action queries in the trunk, an MLP with residual blocks on what it makes of them. */
export function regression(options: RegressionOptions): RegressionAction {
  return { kind: 'regression', ...options }
}

/** The options of one attention, not a union of both: of a key that both have, the editor would show no text. */
type OptionsOfFlow<A> = {
  /**
   * How the actions see the trunk: `'cross'`, attention to its last hidden states (GR00T); `'joint'`, an action expert that attends to
   * the trunk's keys and values at every layer (pi0).
   * @default 'cross'
   */
  readonly attention?: A
} & (A extends 'joint' ? Omit<JointFlowOptions, 'attention'> : Omit<CrossFlowOptions, 'attention' | 'mlp'>)

/**
 * Flow matching (openpi's equations) by a transformer that attends to the trunk's last hidden states, or with `attention: 'joint'` to its
 * keys and values at every layer.
 */
export function flowMatching<const A extends 'cross' | 'joint' = 'cross'>(
  options: OptionsOfFlow<A>,
): FlowMatchingAction {
  // The options of either attention; the compiler does not resolve the condition.
  return { kind: 'flowMatching', ...(options as FlowMatchingOptions) }
}

// Models

export interface ComposedOptions<
  Cameras extends readonly string[] = readonly string[],
  V extends Vision = Vision,
  A extends Action = Action,
> {
  /** The model's camera slots, in the order of the sequence. */
  readonly cameras: Cameras
  /** Vision: `timmVision(...)`, `transformersVision(...)` or `fused([...])`. */
  readonly vision: V
  /** Projector from vision to the trunk. */
  readonly projector: Projector
  /** Trunk: `causalLM(...)`. */
  readonly language: Language
  /**
   * Proprioception as one token of the sequence (with joint attention, of the action expert's).
   * @default false
   */
  readonly state?: boolean
  /** Action decoder: `tokens()`, `regression(...)` or `flowMatching(...)`. */
  readonly action: A
  /**
   * Attention of the trunk: causal; prefix-LM (the observation sees all of itself); every token sees every token.
   * @default 'causal' for tokens, 'full' for regression, 'prefix' for flow matching
   */
  readonly mask?: CheckMask<NoInfer<A>>
  /**
   * Prompt; `{instruction}` is replaced.
   * @default OpenVLA's: 'In: What action should the robot take to {instruction}?\\nOut:'
   */
  readonly prompt?: string
  /**
   * Padded length of the tokenised prompt. A longer prompt stops the run.
   * @default 64; 128 with the byte-level tokenizer
   */
  readonly promptTokens?: number
  /**
   * An `hf` package of ours to start from: directory or hub id.
   * @default none: the parts' own weights, else initialised from the seed
   */
  readonly weights?: string
}
export interface ComposedModel extends ComposedOptions {
  readonly kind: 'composed'
}

export interface OpenvlaOptions<A extends TokensAction | RegressionAction = TokensAction | RegressionAction> {
  /** Directory or hub id of an OpenVLA-layout HF directory. */
  readonly weights: string
  /**
   * Revision on the hub: a commit, tag or branch.
   * @default the hub's main branch
   */
  readonly revision?: string
  /**
   * Actions per prediction.
   * @default 1
   */
  readonly chunk?: number
  /**
   * Action decoder.
   * @default tokens()
   */
  readonly action?: A
}
export interface OpenvlaModel extends OpenvlaOptions {
  readonly kind: 'openvla'
}

export type Model = ComposedModel | OpenvlaModel | PolicyModel

type TowerTraits<V> =
  V extends TimmVision<infer Name>
    ? string extends Name
      ? Traits
      : TimmTraits<Name>
    : V extends FusedVision<infer Towers>
      ? TowerTraits<Towers[number]>
      : Traits

interface Blocks {
  readonly blocks: true
  readonly linears: true
}

/** 'action' unless the decoder is `tokens`. */
type ActionModule<A> = A extends { readonly kind: 'tokens' }
  ? never
  : A extends { readonly kind: string }
    ? 'action'
    : never

interface OpenvlaTraits {
  readonly vision: Blocks
  readonly projector: { readonly blocks: false; readonly linears: true }
  readonly language: Blocks
  readonly action: Blocks
}

/** An own VLA, composed of parts. Modules: vision, projector, language, and action unless it decodes tokens. */
export function composed<const Cameras extends readonly string[], const V extends Vision, const A extends Action>(
  options: ComposedOptions<Cameras, V, A>,
): ComposedModel &
  ModelShape<
    'vision' | 'projector' | 'language' | ActionModule<A>,
    Cameras[number],
    Omit<OpenvlaTraits, 'vision'> & { readonly vision: TowerTraits<V> },
    'composed'
  > {
  return { kind: 'composed', ...options }
}

/** OpenVLA. Modules: vision, projector, language (and action with regression); camera: primary. */
export function openvla<const A extends TokensAction | RegressionAction = TokensAction>(
  options: OpenvlaOptions<A>,
): OpenvlaModel &
  ModelShape<'vision' | 'projector' | 'language' | ActionModule<A>, 'primary', OpenvlaTraits, 'openvla'> {
  return { kind: 'openvla', ...options }
}

/** Whether a model is one of LeRobot's policies. */
export function isPolicy(model: Model): model is PolicyModel {
  return model.kind !== 'composed' && model.kind !== 'openvla'
}

// Schemas

const timmSchema = z.strictObject({
  kind: z.literal('timm'),
  name: text,
  weights: text.exactOptional(),
  imageSize: positive.exactOptional(),
  output: z.enum(['tokens', 'map']).exactOptional(),
  layer: z.number().int().exactOptional(),
  norm: z.enum(['native', 'group']).exactOptional(),
  options: jsonRecord.exactOptional(),
})
const transformersSchema = z.strictObject({
  kind: z.literal('transformers'),
  source: text,
  revision: text.exactOptional(),
  imageSize: positive.exactOptional(),
  layer: z.number().int().exactOptional(),
})
const visionSchema: z.ZodType<Vision> = z.discriminatedUnion('kind', [
  timmSchema,
  transformersSchema,
  z.strictObject({
    kind: z.literal('fused'),
    towers: z.array(z.discriminatedUnion('kind', [timmSchema, transformersSchema])).min(1),
    on: z.enum(['channels', 'sequence']).exactOptional(),
  }),
])

/** What is listed block by block. */
const layerCount = positive.max(MOST_LAYERS)

const projectorSchema: z.ZodType<Projector> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('linear') }),
  z.strictObject({ kind: z.literal('mlp'), layers: layerCount }),
  z.strictObject({ kind: z.literal('fusedMlp') }),
  z.strictObject({ kind: z.literal('spatialSoftArgmax'), points: positive }),
])

const languageSchema: z.ZodType<Language> = z.union(
  [
    z.strictObject({ kind: z.literal('causalLM'), source: text, revision: text.exactOptional() }),
    z.strictObject({
      kind: z.literal('causalLM'),
      config: z.intersection(z.looseObject({ model_type: text }), jsonRecord),
      tokenizer: z.literal('bytes').exactOptional(),
    }),
  ],
  { error: 'expected causalLM(...)' },
)

const tokensSchema = z.strictObject({
  kind: z.literal('tokens'),
  chunk: positive.exactOptional(),
  bins: positive.exactOptional(),
})
const regressionSchema = z.strictObject({
  kind: z.literal('regression'),
  chunk: positive,
  hidden: positive.exactOptional(),
  blocks: layerCount.exactOptional(),
})
const flowMatchingSchema = z.discriminatedUnion('attention', [
  z.strictObject({
    kind: z.literal('flowMatching'),
    attention: z.literal('cross').exactOptional(),
    layers: layerCount,
    hidden: positive,
    chunk: positive,
    heads: positive.exactOptional(),
    steps: positive.exactOptional(),
  }),
  z.strictObject({
    kind: z.literal('flowMatching'),
    attention: z.literal('joint'),
    hidden: positive,
    mlp: positive.exactOptional(),
    chunk: positive,
    layers: layerCount.exactOptional(),
    heads: positive.exactOptional(),
    steps: positive.exactOptional(),
  }),
])

export const modelSchema: z.ZodType<Model> = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('composed'),
    cameras: z.array(text).min(1),
    vision: visionSchema,
    projector: projectorSchema,
    language: languageSchema,
    state: z.boolean().exactOptional(),
    action: z.discriminatedUnion('kind', [tokensSchema, regressionSchema, flowMatchingSchema]),
    mask: z.enum(['causal', 'prefix', 'full']).exactOptional(),
    prompt: text.exactOptional(),
    promptTokens: positive.exactOptional(),
    weights: text.exactOptional(),
  }),
  z.strictObject({
    kind: z.literal('openvla'),
    weights: text,
    revision: text.exactOptional(),
    chunk: positive.exactOptional(),
    action: z.discriminatedUnion('kind', [tokensSchema, regressionSchema]).exactOptional(),
  }),
  ...policySchemas,
])
