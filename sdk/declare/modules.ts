/** What a module trains with. */
import * as z from 'zod'

import { loraSchema } from './adapt.ts'
import type { CheckAdapt, CheckFreeze, CheckRecompute } from './check.ts'
import { dtype, type DType } from './common.ts'
import { freezeSchema } from './freeze.ts'

/**
 * Options of one module. The parameters are what the compiler checks them against: the dtypes of the hardware to compute (`D`) and to
 * rest in (`S`), the traits of the module (`T`), and whether every process holds the whole model (DDP); left out, everything is allowed: `const vision = { dtype: 'bf16' } satisfies ModuleOptions`.
 */
export interface ModuleOptions<D = DType, S = DType, T = unknown, Replicated = false> {
  /**
   * Peak learning rate of the module, per optimizer update. Ratios above 50 between modules are reported.
   * @default training.lr, or the model's published recipe
   */
  readonly lr?: number
  /**
   * Decoupled weight decay (times the learning rate, per update); biases and norms are left out.
   * @default training.weightDecay, or the model's published recipe
   */
  readonly weightDecay?: number
  /**
   * Dtype in which the module computes. What trains has fp32 masters and fp32 gradient reduction whatever this says.
   * @default 'fp32' on cpus, 'bf16' where the GPU has it
   */
  readonly dtype?: D
  /**
   * Dtype in which the parameters rest. Masters below fp32 lose small updates.
   * @default 'fp32' where something ever trains ('fp64' under an fp64 module); else as loaded
   */
  readonly storage?: S
  /**
   * `'full'`: recompute each block in the backward pass instead of keeping its activations: about a third more compute, for the memory
   * of one block instead of all (Chen et al. 2016).
   * @default 'none', or the model's published recipe
   */
  readonly recompute?: CheckRecompute<T>
  /**
   * When the module is frozen: `'never'`, `'always'`, `until('75%', { thenTrain: lastLayers(6) })`, or a list of `phase(...)`. With
   * `adapt` it speaks of the adapters; the base stays frozen.
   * @default 'never'
   */
  readonly freeze?: CheckFreeze<T, Replicated>
  /**
   * Low-rank adapters instead of full training: `lora({ rank: 32 })`, injected before sharding and merged into packages.
   * @default none: the weights themselves train
   */
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
