/** Policies of LeRobot's own classes, and of plugins that register one. */
import * as z from 'zod'

import type { actFields } from '../catalog/lerobot/act.ts'
import type { diffusionFields } from '../catalog/lerobot/diffusion.ts'
import type { FieldOptions, Fields } from '../catalog/lerobot/fields.ts'
import type { pi0Fields } from '../catalog/lerobot/pi0.ts'
import type { pi05Fields } from '../catalog/lerobot/pi05.ts'
import type { smolvlaFields } from '../catalog/lerobot/smolvla.ts'
import type { xvlaFields } from '../catalog/lerobot/xvla.ts'
import { jsonRecord, positive, text, type Json } from './common.ts'
import { imageNormalization, type ImageNormalization } from './normalize.ts'
import type { ModelShape } from './shape.ts'

/**
 * Patterns that say which parameters a module of a policy has. `vla inspect` proposes them. `Blocks`: the `blocks` as written, from which
 * the compiler sees whether there are any.
 */
export interface ModulePatterns<Blocks = readonly string[]> {
  /** fnmatch patterns over parameter names. The modules of a policy partition its parameters. */
  readonly parameters: readonly string[]
  /**
   * Patterns over names of submodules: the repeated blocks, which become FSDP2 wrap units and recompute units.
   * @default none: the module is one unit
   */
  readonly blocks?: Blocks extends readonly string[] ? Blocks : readonly string[]
  /**
   * Patterns of parameters that never receive a gradient.
   * @default none
   */
  readonly dead?: readonly string[]
}

export interface PolicyOptions<
  Cameras extends readonly string[] = readonly string[],
  Config = Readonly<Record<string, Json>>,
> {
  /**
   * Pretrained policy: a LeRobot policy directory or hub id.
   * @default initialised as LeRobot does
   */
  readonly weights?: string
  /**
   * Revision on the hub: a commit, tag or branch.
   * @default the hub's main branch
   */
  readonly revision?: string
  /**
   * The policy's cameras: LeRobot's features are `observation.images.<camera>`.
   * @default those of the published policy
   */
  readonly cameras?: Cameras
  /**
   * Proprioception.
   * @default true
   */
  readonly state?: boolean
  /**
   * Actions per prediction.
   * @default the policy's own
   */
  readonly chunk?: number
  /**
   * Actions beyond the end of an episode: `'masked'` leaves them out of the loss, `'counted'` trains on the last action, repeated.
   * @default 'masked'
   */
  readonly padding?: 'masked' | 'counted'
  /**
   * Batch normalisation that would learn its statistics from each micro-batch: refused, or its statistics frozen.
   * @default 'refuse'
   */
  readonly batchNorm?: 'refuse' | 'frozen'
  /**
   * Statistics of states and actions: those of the dataset, or those of the pretrained policy directory.
   * @default 'dataset'
   */
  readonly statistics?: 'dataset' | 'inherited'
  /**
   * Directory of the tokenizer, for machines that cannot fetch it under the name that LeRobot has for it.
   * @default LeRobot's name of it, from the hub or its cache
   */
  readonly tokenizer?: string
  /**
   * What normalises the pictures of every camera before the policy sees them. `vla inspect` proposes LeRobot's.
   * @default as lerobot-train does it for this policy, or as the pretrained policy has it; otherwise it is to be said
   */
  readonly images?: ImageNormalization
  /**
   * Further fields of LeRobot's configuration class, by its names: `{ n_obs_steps: 2 }`.
   * @default LeRobot's, or the pretrained policy's
   */
  readonly config?: Config
}

/** A policy that must be told its cameras: nothing published has them. */
type WithCameras<Cameras extends readonly string[], F extends Fields> = PolicyOptions<Cameras, FieldOptions<F>> & {
  readonly cameras: Cameras
}

export interface LerobotPolicyOptions<
  Cameras extends readonly string[] = readonly string[],
  Modules = Readonly<Record<string, readonly string[]>>,
> extends PolicyOptions<Cameras> {
  /** The policy's cameras: LeRobot's features are `observation.images.<camera>`. */
  readonly cameras: Cameras
  /** LeRobot's name of the policy, or the one that a plugin registers. */
  readonly type: string
  /**
   * Python package that registers the type when it is imported: `'lerobot_policy_mine'`.
   * @default none: the type is LeRobot's own
   */
  readonly plugin?: string
  /** Actions per prediction. */
  readonly chunk: number
  /** The modules by name, a partition of the policy's parameters. */
  readonly modules: { readonly [Name in keyof Modules]: ModulePatterns<Modules[Name]> }
}

/** A policy of the catalog, by the constructor that made it. */
export interface CatalogPolicy extends PolicyOptions {
  readonly kind: PolicyType
}

/** Any other policy. */
export interface NamedPolicy extends PolicyOptions {
  readonly kind: 'lerobotPolicy'
  /** LeRobot's name of the policy, or the one that a plugin registers. */
  readonly type: string
  /**
   * Python package that registers the type when it is imported.
   * @default none: the type is LeRobot's own
   */
  readonly plugin?: string
  /**
   * The modules by name, a partition of the policy's parameters.
   * @default those of the catalog
   */
  readonly modules?: Readonly<Record<string, ModulePatterns>>
}

export type PolicyModel = CatalogPolicy | NamedPolicy

/** LeRobot's name of a declared policy. */
export function policyType(model: PolicyModel): string {
  return model.kind === 'lerobotPolicy' ? model.type : model.kind
}

interface Blocks {
  readonly blocks: true
  readonly linears: true
}
interface Plain {
  readonly blocks: false
  readonly linears: true
}
/** Blocks of convolutions. */
interface Convolutions {
  readonly blocks: true
  readonly linears: false
}
/** Neither blocks nor linears. */
interface Bare {
  readonly blocks: false
  readonly linears: false
}
/** A config decides whether there are linears. */
interface Configured {
  readonly blocks: false
  readonly linears: boolean
}

interface JointTraits {
  readonly vision: Blocks
  readonly projector: Plain
  readonly language: Blocks
  readonly expert: Blocks
  readonly heads: Plain
}

/** What the compiler knows of the modules of each policy; a test holds it equal to the catalog. */
export type PolicyTraits = {
  readonly act: Readonly<Record<'vae' | 'encoder' | 'decoder', Blocks>> & {
    readonly vision: Convolutions
    readonly projector: Bare
    readonly heads: Plain
  }
  readonly diffusion: { readonly vision: Convolutions; readonly projector: Plain; readonly unet: Blocks }
  readonly xvla: Readonly<Record<'vision' | 'language' | 'policy', Blocks>> &
    Readonly<Record<'softPrompts' | 'heads', Bare>> & { readonly projector: Configured }
} & Readonly<Record<'smolvla' | 'pi0' | 'pi05', JointTraits>>
type PolicyType = keyof PolicyTraits

/** The kinds of the policies that have a constructor. */
export const policyTypes = [
  'act',
  'diffusion',
  'smolvla',
  'pi0',
  'pi05',
  'xvla',
] as const satisfies readonly PolicyType[]

type Shaped<Type extends PolicyType, Cameras extends readonly string[]> = CatalogPolicy &
  ModelShape<keyof PolicyTraits[Type] & string, Cameras[number], PolicyTraits[Type], 'lerobot'>

/** openpi's names, which the published weights keep. */
type OpenpiCameras = readonly ['base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb']

/** The config's values are JSON, which the tables of the catalog do not say of objects. */
function policy<Type extends PolicyType, Cameras extends readonly string[]>(
  type: Type,
  options: PolicyOptions<Cameras, object> | undefined,
): Shaped<Type, Cameras> {
  return { kind: type, ...options } as unknown as Shaped<Type, Cameras>
}

/** ACT (LeRobot): a transformer with a CVAE that predicts a chunk of actions. */
export function act<const Cameras extends readonly string[]>(
  options: WithCameras<Cameras, typeof actFields>,
): Shaped<'act', Cameras> {
  return policy('act', options)
}

/** Diffusion Policy (LeRobot): a U-Net that denoises a horizon of actions. */
export function diffusion<const Cameras extends readonly string[]>(
  options: WithCameras<Cameras, typeof diffusionFields>,
): Shaped<'diffusion', Cameras> {
  return policy('diffusion', options)
}

/** SmolVLA (LeRobot): SmolVLM2 with an action expert that attends to its layers. */
export function smolvla<const Cameras extends readonly string[] = readonly ['camera1', 'camera2', 'camera3']>(
  options?: PolicyOptions<Cameras, FieldOptions<typeof smolvlaFields>>,
): Shaped<'smolvla', Cameras> {
  return policy('smolvla', options)
}

/** pi0 (LeRobot's PyTorch port): PaliGemma and an action expert that attend jointly, layer by layer. */
export function pi0<const Cameras extends readonly string[] = OpenpiCameras>(
  options?: PolicyOptions<Cameras, FieldOptions<typeof pi0Fields>>,
): Shaped<'pi0', Cameras> {
  return policy('pi0', options)
}

/** pi0.5 (LeRobot's PyTorch port): pi0 with the state in the prompt and adaptive norms in the expert. */
export function pi05<const Cameras extends readonly string[] = OpenpiCameras>(
  options?: PolicyOptions<Cameras, FieldOptions<typeof pi05Fields>>,
): Shaped<'pi05', Cameras> {
  return policy('pi05', options)
}

/** X-VLA (LeRobot): Florence-2 with a soft-prompted transformer for actions. */
export function xvla<const Cameras extends readonly string[] = readonly ['image', 'image2', 'image3']>(
  options?: PolicyOptions<Cameras, FieldOptions<typeof xvlaFields>>,
): Shaped<'xvla', Cameras> {
  return policy('xvla', options)
}

/** Whether a module has blocks, by its `blocks` as written; `boolean` where the compiler cannot know. */
type HasBlocks<Blocks> = [Blocks] extends [readonly []] ? false : [Blocks] extends [readonly string[]] ? boolean : false

/** Any policy that LeRobot knows, or that a `lerobot_policy_*` plugin registers. `vla inspect` proposes the modules. */
export function lerobotPolicy<
  const Cameras extends readonly string[],
  const Modules extends Readonly<Record<string, unknown>>,
>(
  options: LerobotPolicyOptions<Cameras, Modules>,
): NamedPolicy &
  ModelShape<
    keyof Modules & string,
    Cameras[number],
    { readonly [Name in keyof Modules]: { readonly blocks: HasBlocks<Modules[Name]>; readonly linears: boolean } },
    'lerobot'
  > {
  // What stands in `blocks` is known literally here, and a list there.
  return { kind: 'lerobotPolicy', ...(options as LerobotPolicyOptions<Cameras>) }
}

const shared = {
  weights: text.exactOptional(),
  revision: text.exactOptional(),
  cameras: z.array(text).min(1).exactOptional(),
  state: z.boolean().exactOptional(),
  chunk: positive.exactOptional(),
  padding: z.enum(['masked', 'counted']).exactOptional(),
  batchNorm: z.enum(['refuse', 'frozen']).exactOptional(),
  statistics: z.enum(['dataset', 'inherited']).exactOptional(),
  tokenizer: text.exactOptional(),
  images: imageNormalization.exactOptional(),
  config: jsonRecord.exactOptional(),
}

/** What `import` takes. */
const pythonPackage = z.string().regex(/^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/, {
  error: 'expected the name under which Python imports it, such as lerobot_policy_mine',
})

const patterns = z.strictObject({
  parameters: z.array(text).min(1),
  blocks: z.array(text).exactOptional(),
  dead: z.array(text).exactOptional(),
})

export const policySchemas = [
  ...policyTypes.map((type) => z.strictObject({ kind: z.literal(type), ...shared })),
  z.strictObject({
    kind: z.literal('lerobotPolicy'),
    type: text,
    plugin: pythonPackage.exactOptional(),
    modules: z.record(text, patterns).exactOptional(),
    ...shared,
  }),
] as const
