/** What a module trains with. */
import * as z from 'zod'

import { loraSchema } from './adapt.ts'
import type { CheckAdapt, CheckFreeze, CheckRecompute } from './check.ts'
import { dtype, type DType } from './common.ts'
import { freezeSchema } from './freeze.ts'

/**
 * Options of one module. `D` and `T` are what the compiler checks them against: the dtypes of the hardware and the traits of the module;
 * left out, everything is allowed: `const vision = { dtype: 'bf16' } satisfies ModuleOptions`.
 */
export interface ModuleOptions<D = DType, S = DType, T = unknown> {
  /** Peak learning rate of the module. @default training.lr, or the model's published recipe */
  readonly lr?: number
  /** Decoupled weight decay. @default training.weightDecay */
  readonly weightDecay?: number
  /** Compute dtype. What trains has fp32 masters whatever this says. @default 'fp32' on cpus, 'bf16' where the GPU has it */
  readonly dtype?: D
  /** Dtype in which the parameters are kept. @default 'fp32' where something trains; else as loaded */
  readonly storage?: S
  /** `'full'`: recompute each block in the backward pass instead of keeping its activations. @default 'none' */
  readonly recompute?: CheckRecompute<T>
  /** When the module is frozen. @default 'never' */
  readonly freeze?: CheckFreeze<T>
  /** Low-rank adapters instead of full training. */
  readonly adapt?: CheckAdapt<T>
}

export const moduleSchema: z.ZodType<ModuleOptions> = z.strictObject({
  lr: z.number().nonnegative().exactOptional(),
  weightDecay: z.number().nonnegative().exactOptional(),
  dtype: dtype.exactOptional(),
  storage: dtype.exactOptional(),
  recompute: z.enum(['none', 'full']).exactOptional(),
  freeze: freezeSchema.exactOptional(),
  adapt: loraSchema.exactOptional(),
})

export const modulesSchema: z.ZodType<Readonly<Record<string, ModuleOptions>>> = z.record(z.string(), moduleSchema)
