/** The whole declaration. */
import * as z from 'zod'

import { augmentSchema, type ImageAugmentation } from './augment.ts'
import { checkpointSchema, type Checkpoint } from './checkpoint.ts'
import { count, text } from './common.ts'
import { camerasSchema, dataSchema, type CameraMap, type Data } from './data.ts'
import { evaluateSchema, type Simulation } from './evaluate.ts'
import { exportSchema, type Export } from './export.ts'
import { hardwareSchema, type Hardware } from './hardware.ts'
import { launchSchema, type Launch } from './launch.ts'
import { modelSchema, type Model } from './model.ts'
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

/** Declare a pipeline; export it as default from pipeline.ts. */
export function defineVLAPipeline(pipeline: Declaration): Declaration {
  const marked = { [pipelineMark]: 1, ...pipeline }
  return marked
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
