/**
 * What the compiler decides before anything runs. Each type is the twin of a rule: `unknown` where all is well, else an error whose text
 * is the rule's id and fix. The rules are the authority; tests hold both equal over grids of declarations and the rules' own examples.
 */
import type { GpuName, gpuTable } from '../catalog/gpus.ts'
import type { timmTable, TimmArchitecture } from '../catalog/timm.ts'
import type { Lora, TargetedLora } from './adapt.ts'
import type { ImageAugmentation, UncroppedAugmentation } from './augment.ts'
import type { DType, VlaTypeError } from './common.ts'
import type { Export, HfExport, LerobotExport } from './export.ts'
import type { Freeze, LastLayers, Phase, Until } from './freeze.ts'
import type { Normalize } from './normalize.ts'
import type { Ddp } from './parallel.ts'

// Texts stand in aliases of their own, never a whole error: the compiler would print the alias instead of the text.

// GPUs and dtypes

/** VLA005, as part of a constraint: never a value, but the compiler prints it. */
export type UnknownGpuText = 'VLA005: the catalog has no GPU of this name.'

/** The GPU; nothing to check further where the name was wrong, since inference then takes the whole constraint. */
export type KnownGpu<G> = VlaTypeError<UnknownGpuText> extends G ? never : G & GpuName

/** The GPUs of `G` without bf16. Distributes, so that a union of GPUs names the culprit. */
type WithoutBf16<G> = G extends GpuName ? ((typeof gpuTable)[G]['bf16'] extends true ? never : G) : never

/** VLA101 and VLA102: whether a compute dtype exists on the hardware. */
export type CheckDType<D, G> = D extends 'bf16'
  ? [WithoutBf16<G>] extends [never]
    ? unknown
    : VlaTypeError<`VLA101: ${WithoutBf16<G> & string} has no bf16. Use 'fp32'.`>
  : CheckFp64<D, G>

type Fp64Text = "VLA102: fp64 is for cpus({ … }), to verify. Use 'bf16' or 'fp32'."

/** VLA102: fp64 is for cpus. */
export type CheckFp64<D, G> = D extends 'fp64'
  ? [Exclude<G, 'cpu'>] extends [never]
    ? unknown
    : VlaTypeError<Fp64Text>
  : unknown

/** Whether every process holds the whole model: DDP. False where that shows at run time alone. */
export type IsReplicated<P> = [P] extends [Ddp] ? true : false

/** The dtype of a module that names none; never where the hardware leaves it open. */
type DefaultDType<G> = [G] extends [never]
  ? never
  : [G] extends ['cpu' | WithoutBf16<G>]
    ? 'fp32'
    : [G] extends [Exclude<GpuName, WithoutBf16<G>>]
      ? 'bf16'
      : never

type BelowText = 'VLA104: ddp() computes in the dtype it stores. Store what `dtype` says, or use fsdp2().'

/** `D`: the dtype that the module computes in. */
type CheckReplicatedStorage<D, G> = [D] extends [never]
  ? 'fp32' | 'bf16' | ('fp64' & CheckFp64<'fp64', G>)
  : [D] extends ['fp32']
    ? 'fp32' | ('bf16' & VlaTypeError<BelowText>) | ('fp64' & CheckFp64<'fp64', G>)
    : [D, G] extends ['fp64', 'cpu']
      ? 'fp64' | (('fp32' | 'bf16') & VlaTypeError<BelowText>)
      : 'fp32' | 'bf16' | ('fp64' & CheckFp64<'fp64', G>)

/**
 * In which dtype a module may rest. VLA102; and VLA104, since DDP does not compute in more bits than it stores. `D`: what the module says
 * to compute in, if anything.
 */
export type CheckStorage<D, G, Replicated> = Replicated extends true
  ? CheckReplicatedStorage<D extends DType ? D : DefaultDType<G>, G>
  : 'fp32' | 'bf16' | ('fp64' & CheckFp64<'fp64', G>)

/** VLA003: a dtype of the vocabulary. */
export type UnknownDType<D> = D extends DType
  ? never
  : D extends string
    ? D & VlaTypeError<"VLA003: dtypes are 'fp32', 'bf16', and 'fp64' on cpus.">
    : never

// Traits of modules

/** What the compiler knows of a module. `boolean` where it cannot know. */
export interface Traits {
  readonly blocks: boolean
  readonly linears: boolean
}

/** `'resnet18.a1_in1k'` -> `'resnet18'`. */
type Architecture<Name extends string> = Name extends `${infer Head}.${string}` ? Head : Name

/** Traits of a timm tower, where the catalog has its architecture. */
export type TimmTraits<Name extends string> =
  Architecture<Name> extends infer A extends TimmArchitecture
    ? (typeof timmTable)[A] extends
        { readonly family: 'vit' } | { readonly family: 'convnext'; readonly convMlp: false }
      ? { readonly blocks: true; readonly linears: true }
      : { readonly blocks: true; readonly linears: false }
    : Traits

/** VLA301: recompute needs blocks. */
export type CheckRecompute<T> = [T] extends [{ readonly blocks: false }]
  ? 'none' | ('full' & VlaTypeError<'VLA301: this module has no blocks to recompute. Remove `recompute`.'>)
  : 'none' | 'full'

type LastLayersText = "VLA306: this module has no blocks to count. Train 'all' of it."
type PlainPhase = Phase<'all' | 'none'> | (Phase<LastLayers> & VlaTypeError<LastLayersText>)

type DdpText = 'VLA302: under ddp() what trains cannot change during the run. Use fsdp2().'
/** Phases that all train the same, as far as the compiler sees. */
type Steady<T extends 'all' | 'none' | LastLayers> = readonly [Phase<T>, ...Phase<T>[]]

/** VLA302: ddp keeps to what trains at the start. VLA306: `lastLayers` needs blocks. */
export type CheckFreeze<T, Replicated> = Replicated extends true
  ? | 'never'
    | 'always'
    | Steady<'all'>
    | Steady<'none'>
    | Steady<LastLayers>
    | ((Until | readonly [Phase, ...Phase[]]) & VlaTypeError<DdpText>)
  : [T] extends [{ readonly blocks: false }]
    ? | 'never'
      | 'always'
      | Until<'all'>
      | (Until<LastLayers> & VlaTypeError<LastLayersText>)
      | readonly [PlainPhase, ...PlainPhase[]]
    : Freeze

/** VLA401: adapters of every linear layer need a linear layer. */
export type CheckAdapt<T> = [T] extends [{ readonly linears: false }]
  ? | TargetedLora
    | (Lora & VlaTypeError<'VLA401: this module has no linear layers to adapt. Name convolutions in `targets`.'>)
  : Lora

// Families

/** Which kind of model it is, as in the plan. */
export type Family = 'composed' | 'openvla' | 'lerobot'

type HfText = 'VLA533: a LeRobot policy has no hf() package. Use lerobot().'
type CropText = "VLA533: LeRobot's processors do not crop. Remove `crop`."
type ClipText = "VLA533: LeRobot's normaliser does not clip. Remove `clip`."
type MaskText = "VLA533: LeRobot's normaliser leaves no dimension out. Remove `actionMask`."

/** VLA533: what LeRobot's own directories cannot say. `F`: the family of the model, as far as it is known. */
export type CheckExport<F> = [F] extends ['lerobot'] ? LerobotExport | (HfExport & VlaTypeError<HfText>) : Export

/** VLA533. */
export type CheckAugment<F> = [F] extends ['lerobot']
  ? UncroppedAugmentation | (ImageAugmentation & VlaTypeError<CropText>)
  : ImageAugmentation

/** A mapped type, so that the options keep their texts. */
type LerobotNormalize = {
  readonly [K in keyof Normalize]: K extends 'clip'
    ? false | (true & VlaTypeError<ClipText>)
    : K extends 'actionMask'
      ? readonly (true | (false & VlaTypeError<MaskText>))[]
      : Normalize[K]
}

/** VLA533. */
export type CheckNormalize<F> = [F] extends ['lerobot'] ? LerobotNormalize : Normalize

/** VLA516: action tokens are decoded one after another. `A`: the decoder. */
export type CheckMask<A> = [A] extends [{ readonly kind: 'tokens' }]
  ? 'causal' | 'prefix' | ('full' & VlaTypeError<"VLA516: action tokens cannot be decoded under 'full'. Use 'prefix'.">)
  : 'causal' | 'prefix' | 'full'

// Names

/** VLA001. */
export type CheckModule<Name, Modules> = Name extends Modules
  ? unknown
  : VlaTypeError<`VLA001: this model has no module '${Name & string}'.`>

/** VLA006. */
export type CheckCamera<Name, Cameras> = Name extends Cameras
  ? unknown
  : VlaTypeError<`VLA006: this model has no camera '${Name & string}'.`>
