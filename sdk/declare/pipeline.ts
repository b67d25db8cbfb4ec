/** The whole declaration. */
import * as z from 'zod'

import type { GpuName } from '../catalog/gpus.ts'
import { augmentSchema, type ImageAugmentation } from './augment.ts'
import { checkpointSchema, type Checkpoint } from './checkpoint.ts'
import type {
  CheckAugment,
  CheckCamera,
  CheckDType,
  CheckExport,
  CheckModule,
  CheckNormalize,
  CheckStorage,
  Family,
  IsReplicated,
  UnknownDType,
} from './check.ts'
import { count, text, type DType } from './common.ts'
import { camerasSchema, dataSchema, type CameraMap, type Data, type LerobotDataset, type MixtureEntry } from './data.ts'
import { evaluateSchema, type Simulation } from './evaluate.ts'
import { exportSchema, type Export } from './export.ts'
import { hardwareSchema, type Device, type Hardware } from './hardware.ts'
import { launchSchema, type Launch } from './launch.ts'
import { modelSchema, type Model } from './model.ts'
import { modulesSchema, type ModuleOptions } from './modules.ts'
import { normalizeSchema, type Normalize } from './normalize.ts'
import { parallelSchema, type Fsdp2, type Parallel } from './parallel.ts'
import { rulesSchema, type Rules } from './rules.ts'
import type { ModelShape } from './shape.ts'
import { trackSchema, type Tracker } from './track.ts'
import { trainingSchema, type Training } from './training.ts'

export interface Loader {
  /**
   * Processes per rank that read and decode samples.
   * @default 4; 0 on cpus, where they would take time from the training processes
   */
  readonly workers?: number
}

/** What the user said: plain JSON-able data, never changed by us. */
export interface Declaration {
  /** Name of the run, its directory and its packages: small letters, digits and hyphens. */
  readonly name: string
  /** Which VLA: `openvla(...)`, a LeRobot policy (`pi05(...)`, `smolvla(...)`, ...), or an own one, `composed(...)`. */
  readonly model: Model
  /** Demonstrations: `lerobotDataset(...)`, or a list `[{ from: lerobotDataset(...), weight: 3 }, ...]`. */
  readonly data: Data
  /**
   * Camera of the model -> image feature of the datasets. An entry's own `cameras` wins.
   * @default the feature that alone can be meant: of the same name, or the only one
   */
  readonly cameras?: CameraMap
  /**
   * Normalisation of states and actions.
   * @default as published with the model; see its options
   */
  readonly normalize?: Normalize
  /**
   * Image augmentation: `imageAugmentation(...)`. Evaluation and packages take the matching centre crop.
   * @default none
   */
  readonly augment?: ImageAugmentation
  /**
   * How samples are read.
   * @default four processes per rank, none on cpus
   */
  readonly loader?: Loader
  /** What the run has: `gpus('H100-SXM-80GB', { perNode: 8 })`, or `cpus({ processes: 2 })`. */
  readonly hardware: Hardware
  /**
   * What each module trains with.
   * @default a module that is not named takes `training.lr`, or the model's published recipe
   */
  readonly modules?: Readonly<Record<string, ModuleOptions>>
  /**
   * How the processes share the work: `fsdp2()` (FULL_SHARD), `fsdp2({ shard: 'gradOp' })` (SHARD_GRAD_OP), or `ddp()`.
   * @default fsdp2({ shard: 'full' })
   */
  readonly parallel?: Parallel
  /** Updates, batches, learning rate, optimizer, schedule. */
  readonly training: Training
  /**
   * When the run is saved.
   * @default every 10% of the run, the three newest kept
   */
  readonly checkpoint?: Checkpoint
  /**
   * Where metrics go: `[tensorboard(), wandb({ project })]`. JSON lines are always written.
   * @default [jsonl()]
   */
  readonly track?: readonly Tracker[]
  /**
   * Rollouts of the packaged policy: `simulation(...)`.
   * @default none
   */
  readonly evaluate?: Simulation
  /**
   * Packages: `[hf(), lerobot()]`.
   * @default none
   */
  readonly export?: readonly Export[]
  /**
   * Launch scripts: `[torchrun(), slurm(...)]`.
   * @default [torchrun()]
   */
  readonly launch?: readonly Launch[]
  /**
   * Rules that are switched off, each with its reason: `{ VLA203: off('measured') }`.
   * @default none
   */
  readonly rules?: Rules
}

/** Marks the value that pipeline.ts exports. A registered symbol, because the SDK may be loaded twice. */
const pipelineMark: unique symbol = Symbol.for('vla.pipeline') as never

/** One dataset of a list, with the cameras of the model. */
interface CheckedEntry<Map, Cameras> extends Omit<MixtureEntry, 'cameras'> {
  /**
   * Camera of the model -> image feature of this dataset; wins over the pipeline's `cameras`.
   * @default the pipeline's `cameras`; else the feature that alone can be meant
   */
  readonly cameras?: { readonly [K in keyof Map]: Map[K] & string & CheckCamera<K, Cameras> }
}

/** What the family of the model decides. A mapped type, so that the options keep their texts. */
type OfFamily<F> = {
  readonly [K in keyof Pick<Declaration, 'normalize' | 'augment' | 'export'>]: K extends 'normalize'
    ? CheckNormalize<F>
    : K extends 'augment'
      ? CheckAugment<F>
      : readonly CheckExport<F>[]
}

/** How the processes share the work, as written. */
type Written<P> = { readonly [K in keyof Pick<Declaration, 'parallel'>]: P }

/** `Declaration` with what the compiler checks. `Options` maps each module to the dtype it names. */
export interface PipelineOptions<
  Modules extends string,
  Cameras extends string,
  ModuleTraits,
  F extends Family,
  G extends string,
  P extends Parallel,
  Options,
  Map,
  Entries,
>
  extends
    Omit<
      Declaration,
      'model' | 'data' | 'cameras' | 'hardware' | 'modules' | 'normalize' | 'augment' | 'export' | 'parallel'
    >,
    OfFamily<NoInfer<F>>,
    Written<P> {
  /** Which VLA: `openvla(...)`, a LeRobot policy (`pi05(...)`, `smolvla(...)`, ...), or an own one, `composed(...)`. */
  readonly model: Model & ModelShape<Modules, Cameras, ModuleTraits, F>
  /** What the run has: `gpus('H100-SXM-80GB', { perNode: 8 })`, or `cpus({ processes: 2 })`. */
  readonly hardware: Hardware & Device<G>
  /** Demonstrations: `lerobotDataset(...)`, or a list `[{ from: lerobotDataset(...), weight: 3 }, ...]`. */
  readonly data: LerobotDataset | { readonly [I in keyof Entries]: CheckedEntry<Entries[I], NoInfer<Cameras>> }
  /**
   * Camera of the model -> image feature of the datasets. An entry's own `cameras` wins.
   * @default the feature that alone can be meant: of the same name, or the only one
   */
  readonly cameras?: { readonly [K in keyof Map]: Map[K] & string & CheckCamera<K, NoInfer<Cameras>> }
  /**
   * What each module trains with.
   * @default a module that is not named takes `training.lr`, or the model's published recipe
   */
  readonly modules?: {
    readonly [K in keyof Options]: ModuleOptions<
      (Options[K] & DType & CheckDType<Options[K], NoInfer<G>>) | UnknownDType<Options[K]>,
      CheckStorage<NoInfer<Options[K]>, NoInfer<G>, IsReplicated<NoInfer<P>>>,
      K extends keyof NoInfer<ModuleTraits> ? NoInfer<ModuleTraits>[K] : unknown,
      IsReplicated<NoInfer<P>>
    > &
      CheckModule<K, NoInfer<Modules>>
  }
}

/**
 * Declare a pipeline; export it as default from pipeline.ts.
 * @example export default defineVLAPipeline({ name: 'openvla-bridge', model: openvla({ weights: 'openvla/openvla-7b' }), ... })
 */
export function defineVLAPipeline<
  const Modules extends string,
  const Cameras extends string,
  const ModuleTraits,
  const Options extends { readonly [K in Modules]?: unknown } & Readonly<Record<string, unknown>>,
  const Map extends { readonly [K in Cameras]?: unknown } & Readonly<Record<string, unknown>>,
  const Entries extends readonly ({ readonly [K in Cameras]?: unknown } & Readonly<Record<string, unknown>>)[],
  const F extends Family = Family,
  const G extends GpuName | 'cpu' = never,
  const P extends Parallel = Fsdp2,
>(pipeline: PipelineOptions<Modules, Cameras, ModuleTraits, F, G, P, Options, Map, Entries>): Declaration {
  const marked = { [pipelineMark]: 1, ...pipeline }
  // The branded options are options: the brands exist only where there is a mistake.
  return marked as unknown as Declaration
}

const loaderSchema: z.ZodType<Loader> = z.strictObject({ workers: count.exactOptional() })

export const declarationSchema: z.ZodType<Declaration> = z.strictObject({
  name: text,
  model: modelSchema,
  data: dataSchema,
  cameras: camerasSchema.exactOptional(),
  normalize: normalizeSchema.exactOptional(),
  augment: augmentSchema.exactOptional(),
  loader: loaderSchema.exactOptional(),
  hardware: hardwareSchema,
  modules: modulesSchema.exactOptional(),
  parallel: parallelSchema.exactOptional(),
  training: trainingSchema,
  checkpoint: checkpointSchema.exactOptional(),
  track: trackSchema.exactOptional(),
  evaluate: evaluateSchema.exactOptional(),
  export: exportSchema.exactOptional(),
  launch: launchSchema.exactOptional(),
  rules: rulesSchema.exactOptional(),
})
