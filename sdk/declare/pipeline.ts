/** The whole declaration. */
import * as z from 'zod'

import type { GpuName } from '../catalog/gpus.ts'
import { augmentSchema, type ImageAugmentation } from './augment.ts'
import { checkpointSchema, type Checkpoint } from './checkpoint.ts'
import type { CheckCamera, CheckDType, CheckFp64, CheckModule, UnknownDType } from './check.ts'
import { count, text, type DType } from './common.ts'
import { camerasSchema, dataSchema, type CameraMap, type Data, type LerobotDataset, type MixtureEntry } from './data.ts'
import { evaluateSchema, type Simulation } from './evaluate.ts'
import { exportSchema, type Export } from './export.ts'
import { hardwareSchema, type Device, type Hardware } from './hardware.ts'
import { launchSchema, type Launch } from './launch.ts'
import { modelSchema, type Model, type ModelShape } from './model.ts'
import { modulesSchema, type ModuleOptions } from './modules.ts'
import { normalizeSchema, type Normalize } from './normalize.ts'
import { parallelSchema, type Parallel } from './parallel.ts'
import { rulesSchema, type Rules } from './rules.ts'
import { trackSchema, type Tracker } from './track.ts'
import { trainingSchema, type Training } from './training.ts'

/** What the user said: plain JSON-able data, never changed by us. */
export interface Declaration {
  readonly name: string
  readonly model: Model
  readonly data: Data
  readonly cameras?: CameraMap
  readonly normalize?: Normalize
  readonly augment?: ImageAugmentation
  readonly loader?: { readonly workers?: number }
  readonly hardware: Hardware
  readonly modules?: Readonly<Record<string, ModuleOptions>>
  readonly parallel?: Parallel
  readonly training: Training
  readonly checkpoint?: Checkpoint
  readonly track?: readonly Tracker[]
  readonly evaluate?: Simulation
  readonly export?: readonly Export[]
  readonly launch?: readonly Launch[]
  readonly rules?: Rules
}

/** Marks the value that pipeline.ts exports. A registered symbol, because the SDK may be loaded twice. */
export const pipelineMark: unique symbol = Symbol.for('vla.pipeline') as never

/** One dataset of a list, with the cameras of the model. */
interface CheckedEntry<Map, Cameras> extends Omit<MixtureEntry, 'cameras'> {
  readonly cameras?: { readonly [K in keyof Map]: Map[K] & string & CheckCamera<K, Cameras> }
}

/** `Declaration` with the names and dtypes that the compiler checks. `Options` maps each module to the dtype it names. */
export interface PipelineOptions<
  Modules extends string,
  Cameras extends string,
  ModuleTraits,
  G extends string,
  Options,
  Map,
  Entries,
> extends Omit<Declaration, 'model' | 'data' | 'cameras' | 'hardware' | 'modules'> {
  readonly model: Model & ModelShape<Modules, Cameras, ModuleTraits>
  readonly hardware: Hardware & Device<G>
  readonly data: LerobotDataset | { readonly [I in keyof Entries]: CheckedEntry<Entries[I], NoInfer<Cameras>> }
  readonly cameras?: { readonly [K in keyof Map]: Map[K] & string & CheckCamera<K, NoInfer<Cameras>> }
  readonly modules?: {
    readonly [K in keyof Options]: ModuleOptions<
      (Options[K] & DType & CheckDType<Options[K], NoInfer<G>>) | UnknownDType<Options[K]>,
      'fp32' | 'bf16' | ('fp64' & CheckFp64<'fp64', NoInfer<G>>),
      K extends keyof NoInfer<ModuleTraits> ? NoInfer<ModuleTraits>[K] : never
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
  const G extends GpuName | 'cpu' = never,
>(pipeline: PipelineOptions<Modules, Cameras, ModuleTraits, G, Options, Map, Entries>): Declaration {
  const marked = { [pipelineMark]: 1, ...pipeline }
  // The branded options are options: the brands exist only where there is a mistake.
  return marked as unknown as Declaration
}

export const declarationSchema: z.ZodType<Declaration> = z.strictObject({
  name: text,
  model: modelSchema,
  data: dataSchema,
  cameras: camerasSchema.exactOptional(),
  normalize: normalizeSchema.exactOptional(),
  augment: augmentSchema.exactOptional(),
  loader: z.strictObject({ workers: count.exactOptional() }).exactOptional(),
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
