/** What the catalog says of a policy of LeRobot 0.6.1, and helpers that the families share. */
import type { ModuleFacts } from '../model.ts'
import { convLayer, linearLayer, normLayer, tensor, type Parameter } from '../parameters.ts'
import type { NormalizationModes, Problem } from './fields.ts'

/** A value, or that it is not known. */
export type Maybe<T> = T | undefined | { readonly unknown: true }

/** The value, where it is known. */
export function known<T>(value: Maybe<T>): T | undefined {
  const open = typeof value === 'object' && value !== null && (value as { readonly unknown?: unknown }).unknown === true
  return open ? undefined : (value as T | undefined)
}

/** What the facts of a policy depend on. The Plan's model node of a LeRobot policy has this shape. */
export interface PolicyDescription {
  /** Fields of the policy's configuration, by LeRobot's names; what is left out has LeRobot's default. */
  readonly config: Readonly<Record<string, unknown>>
  readonly cameras: readonly string[]
  /** Camera -> height and width of its images in pixels, as the dataset has them. */
  readonly imageSizes: Maybe<ImageSizes>
  /** Width of the proprioception; 0: there is none. */
  readonly stateDim: Maybe<number>
  readonly actionDim: Maybe<number>
  /** SmolVLA: the configuration of the vision-language model that `vlm_model_name` names, where it is not the published one. */
  readonly base?: Maybe<Readonly<Record<string, unknown>>>
}

export type ImageSizes = Readonly<Record<string, readonly [number, number]>>

/** A persistent buffer: it stands in the state dict beside the parameters. */
export interface StateBuffer {
  readonly name: string
  readonly shape: readonly number[]
}

/** Attention of a module whose blocks share one form. */
export interface AttentionFacts {
  readonly heads: number
  readonly keyValueHeads: number
  readonly headDim: number
}

/** `dead`: no loss depends on them, so that their gradient is none or zero. */
export interface PolicyModule extends ModuleFacts {
  /**
   * Submodules outside of the blocks that are called through `forward`, so that each can be a sharding unit. Live parameters that lie
   * neither in a block nor in one of these belong to the unit of the whole policy.
   */
  readonly units: readonly string[]
  /** LeRobot freezes the whole module under this configuration. */
  readonly frozen: boolean
  /** Patterns of parameters that LeRobot freezes in a module that trains. */
  readonly frozenParts: readonly string[]
  /** Persistent buffers; undefined where they are not known. */
  readonly buffers: readonly StateBuffer[] | undefined
  /** Undefined where there is none, or where the blocks differ. */
  readonly attention: AttentionFacts | undefined
}

/** Two stacks whose layers of one depth attend to each other's keys and values and are only ever run together. */
export interface JointStacks {
  /** Patterns of the blocks, as in the modules' `blocks`. */
  readonly trunk: string
  readonly expert: string
  /** Expert layer i runs with trunk layer `i * every`; the trunk's other layers run alone. */
  readonly every: number
}

/**
 * Which token sees which. `blockCausal`: tokens of a block see each other and all earlier blocks; with `actions: 'causal'` each action
 * is a block of its own. `none`: there are no tokens.
 */
export type Mask =
  | { readonly kind: 'full' }
  | { readonly kind: 'none' }
  | {
      readonly kind: 'blockCausal'
      readonly blocks: readonly (readonly ('images' | 'language' | 'state' | 'actions')[])[]
      readonly actions: 'bidirectional' | 'causal'
    }

/** Lengths of the parts of one sample's sequence, in tokens; undefined where they are not known. */
export interface SequenceFacts {
  readonly perImage: number | undefined
  /** Images per sample, empty cameras included. */
  readonly images: number
  /** At most, where the instruction is padded to the longest of a batch. */
  readonly language: number
  readonly state: number
  readonly actions: number
}

/** What LeRobot trains the policy with unless told otherwise. */
export interface PolicyRecipe {
  readonly optimizer: 'adamw' | 'adam'
  readonly lr: number
  readonly betas: readonly [number, number]
  readonly eps: number
  /** On every parameter, norms and biases included; 'adam' adds it to the gradient instead of decoupling it. */
  readonly weightDecay: number
  /** Largest norm of the whole gradient. */
  readonly clip: number
  /** Factor on the learning rate and on the weight decay by module. */
  readonly lrFactors: Readonly<Record<string, number>>
  readonly weightDecayFactors: Readonly<Record<string, number>>
  /**
   * `cosineDecay`: rises over `warmup` updates, then follows half a cosine over `decay` updates, counted from the start, down to
   * `floor` (share of the peak), where it stays; shorter runs scale both. `cosine`: half a cosine over the whole run.
   */
  readonly schedule:
    | { readonly kind: 'constant' }
    | { readonly kind: 'cosine'; readonly warmup: number }
    | { readonly kind: 'cosineDecay'; readonly warmup: number; readonly decay: number; readonly floor: number }
  readonly source: string
}

/** Differences between a file and the model's state dict that are known to do no harm. Everything else is an error. */
export interface WeightRules {
  /** Keys that a file may lack. With `from`, the tensor under that key of the file stands in; without, the parameter is dead. */
  readonly missing: readonly { readonly key: string; readonly from?: string; readonly because: string }[]
  /** Patterns of keys that a file may have beyond the model's. */
  readonly unexpected: readonly { readonly pattern: string; readonly because: string }[]
  /** Groups of keys that are one tensor in the model. */
  readonly tied: readonly (readonly string[])[]
}

export type PolicyType = 'act' | 'diffusion' | 'smolvla' | 'pi0' | 'pi05' | 'xvla'

export interface PolicyFacts {
  readonly type: PolicyType
  /** Their patterns partition the parameters. */
  readonly modules: readonly PolicyModule[]
  /** The whole configuration: what the description says, and LeRobot's defaults for the rest. */
  readonly values: Readonly<Record<string, unknown>>
  readonly normalization: NormalizationModes
  readonly recipe: PolicyRecipe
  /** Actions predicted at once, and how many of them are executed before the next prediction. */
  readonly chunk: number
  readonly actionSteps: number
  /** Frames of observation that it sees, the present one last. */
  readonly observationSteps: number
  /** Frame of the chunk's first action, seen from the present one. */
  readonly firstAction: number
  /** Widths to which states and actions are padded with zeros; null: not padded. */
  readonly padded: { readonly state: number | null; readonly action: number | null }
  readonly mask: Mask
  readonly joint: JointStacks | null
  readonly sequence: SequenceFacts
  readonly weights: WeightRules
  /** Patterns of submodules that normalise over the batch and keep running statistics: their result depends on how it is split. */
  readonly batchNorm: readonly string[]
  readonly problems: readonly Problem[]
}

/** A module with nothing special about it. */
export function policyModule(
  facts: Pick<PolicyModule, 'name' | 'patterns' | 'units' | 'parameters'> & Partial<PolicyModule>,
): PolicyModule {
  return {
    dead: [],
    blocks: [],
    liveBlocks: [],
    frozen: false,
    frozenParts: [],
    buffers: [],
    attention: undefined,
    ...facts,
  }
}

/** Without parameters and buffers: nothing is built on a configuration that was not understood. */
export function undescribed(modules: readonly PolicyModule[]): PolicyModule[] {
  return modules.map((module) => ({ ...module, parameters: undefined, buffers: undefined }))
}

/** Statistics that LeRobot kept in the weights before 0.4: here they come from the dataset or from the policy's processors. */
export const oldStatistics: WeightRules['unexpected'] = [
  'normalize_inputs',
  'normalize_targets',
  'unnormalize_outputs',
].map((name) => ({
  pattern: `${name}.*`,
  because: 'LeRobot before 0.4 kept the statistics in the weights; they are not read from there',
}))

/** What an action chunk asks of its configuration. */
export function chunkProblems(steps: number, field: string, chunk: number): Problem[] {
  if (steps <= chunk) return []
  return [{ field: 'n_action_steps', message: `n_action_steps (${steps}) is above ${field} (${chunk}).` }]
}

/** What padding does to widths beyond it. */
export function paddingProblems(
  what: 'state' | 'action',
  width: number | undefined,
  padded: number,
  outcome: string,
): Problem[] {
  if (width === undefined || width <= padded) return []
  return [
    {
      field: `max_${what}_dim`,
      message: `The ${what} has ${width} dimensions, max_${what}_dim is ${padded}: ${outcome}.`,
    },
  ]
}

/** What a policy without published cameras says where none are named. */
export function cameraProblems(policy: string, cameras: readonly string[]): Problem[] {
  return cameras.length > 0 ? [] : [{ field: 'cameras', message: `${policy} has no cameras: it needs at least one.` }]
}

/** What a policy says to a dataset without proprioception. */
export function stateProblems(policy: string, width: number | undefined): Problem[] {
  if (width !== 0) return []
  return [{ field: 'state', message: `${policy} needs the robot's state; the data names none.` }]
}

/** `nn.MultiheadAttention`. Its output projection is no layer for adapters: torch reads its weight and never calls it. */
export function multiheadAttention(name: string, width: number): Parameter[] {
  return [
    tensor(`${name}.in_proj_weight`, 3 * width, width),
    tensor(`${name}.in_proj_bias`, 3 * width),
    tensor(`${name}.out_proj.weight`, width, width),
    tensor(`${name}.out_proj.bias`, width),
  ]
}

/** `nn.Conv1d`. */
export function conv1d(name: string, inputs: number, outputs: number, kernel: number): Parameter[] {
  return [{ name: `${name}.weight`, shape: [outputs, inputs, kernel], layer: 'conv' }, tensor(`${name}.bias`, outputs)]
}

/** `nn.ConvTranspose1d`, which peft does not adapt. */
export function convTranspose1d(name: string, inputs: number, outputs: number, kernel: number): Parameter[] {
  return [tensor(`${name}.weight`, inputs, outputs, kernel), tensor(`${name}.bias`, outputs)]
}

/** `nn.Embedding`. */
export function embedding(name: string, rows: number, width: number): Parameter {
  return tensor(`${name}.weight`, rows, width)
}

/** A SigLIP vision transformer of transformers (SmolVLM's tower has the same parameters), without its pooling head. */
export function siglip(config: {
  readonly width: number
  readonly hidden: number
  readonly layers: number
  readonly patch: number
  readonly positions: number
}): Parameter[] {
  const { width, hidden } = config
  const parameters = [
    ...convLayer('embeddings.patch_embedding', 3, width, config.patch, true),
    embedding('embeddings.position_embedding', config.positions, width),
  ]
  for (let index = 0; index < config.layers; index++) {
    const layer = `encoder.layers.${String(index)}`
    parameters.push(
      ...normLayer(`${layer}.layer_norm1`, width),
      ...['k_proj', 'v_proj', 'q_proj', 'out_proj'].flatMap((name) =>
        linearLayer(`${layer}.self_attn.${name}`, width, width),
      ),
      ...normLayer(`${layer}.layer_norm2`, width),
      ...linearLayer(`${layer}.mlp.fc1`, width, hidden),
      ...linearLayer(`${layer}.mlp.fc2`, hidden, width),
    )
  }
  return [...parameters, ...normLayer('post_layernorm', width)]
}
