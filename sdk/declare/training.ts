/** The recipe: updates, batches, optimizer, schedule. */
import * as z from 'zod'

import { count, duration, lasting, positive, type Duration } from './common.ts'

export interface AdamwOptions {
  /**
   * Decay rates of the moments.
   * @default [0.9, 0.999] (torch.optim.AdamW)
   */
  readonly betas?: readonly [number, number]
  /**
   * Added to the denominator.
   * @default 1e-8 (torch.optim.AdamW)
   */
  readonly eps?: number
  /**
   * Apply weight decay to biases and norms too.
   * @default false
   */
  readonly decayBiasAndNorm?: boolean
}

export interface Adamw extends AdamwOptions {
  readonly kind: 'adamw'
}

export interface WarmupOptions {
  /**
   * Updates (or share of the run) over which the learning rate rises linearly from zero.
   * @default 0
   */
  readonly warmup?: Duration
}

export interface DecayOptions extends WarmupOptions {
  /**
   * Learning rate at the end, as a share of the peak, 0 to 1.
   * @default 0
   */
  readonly floor?: number
}

export interface Cosine extends DecayOptions {
  readonly kind: 'cosine'
}
export interface Constant extends WarmupOptions {
  readonly kind: 'constant'
}
export interface LinearDecay extends DecayOptions {
  readonly kind: 'linearDecay'
}

export type Schedule = Cosine | Constant | LinearDecay

export interface Training {
  /** Optimizer updates of the whole run. */
  readonly updates: number
  /** Samples per update, over all processes. */
  readonly globalBatch: number
  /** Samples per process and forward pass. Accumulation is derived: globalBatch / (microBatch x processes). */
  readonly microBatch: number
  /**
   * Peak learning rate of the modules that name none, per optimizer update. A module that trains and has none is an error.
   * @default the model's published recipe, where it has one
   */
  readonly lr?: number
  /**
   * Weight decay of the modules that name none.
   * @default 0
   */
  readonly weightDecay?: number
  /**
   * Optimizer.
   * @default adamw()
   */
  readonly optimizer?: Adamw
  /**
   * Shape of every module's learning rate over the run.
   * @default constant()
   */
  readonly schedule?: Schedule
  /**
   * Largest norm of the whole gradient; `'none'` leaves it alone.
   * @default 1.0
   */
  readonly clip?: number | 'none'
  /**
   * Seed of initialisation, sample order, noise and augmentation.
   * @default 0
   */
  readonly seed?: number
  /**
   * Updates that may be skipped for a non-finite loss or gradient before the run stops.
   * @default 10
   */
  readonly skipNonFinite?: number
  /**
   * Updates (or share of the run) between two losses on the held-out episodes.
   * @default '5%' where episodes are held out
   */
  readonly validateEvery?: Duration
}

/** AdamW with decoupled weight decay (Loshchilov and Hutter 2019), fused on GPUs. */
export function adamw(options?: AdamwOptions): Adamw {
  return { kind: 'adamw', ...options }
}

/** Linear warm-up, then half a cosine down to `floor`. */
export function cosine(options?: DecayOptions): Cosine {
  return { kind: 'cosine', ...options }
}

/** Linear warm-up, then a constant learning rate. */
export function constant(options?: WarmupOptions): Constant {
  return { kind: 'constant', ...options }
}

/** Linear warm-up, then a straight line down to `floor`. */
export function linearDecay(options?: DecayOptions): LinearDecay {
  return { kind: 'linearDecay', ...options }
}

const fraction = z.number().min(0).max(1)
const beta = z.number().min(0).lt(1)

export const trainingSchema: z.ZodType<Training> = z.strictObject({
  updates: positive,
  globalBatch: positive,
  microBatch: positive,
  lr: z.number().nonnegative().exactOptional(),
  weightDecay: z.number().nonnegative().exactOptional(),
  optimizer: z
    .strictObject({
      kind: z.literal('adamw'),
      betas: z.tuple([beta, beta]).exactOptional(),
      eps: z.number().positive().exactOptional(),
      decayBiasAndNorm: z.boolean().exactOptional(),
    })
    .exactOptional(),
  schedule: z
    .discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('cosine'), warmup: duration.exactOptional(), floor: fraction.exactOptional() }),
      z.strictObject({ kind: z.literal('constant'), warmup: duration.exactOptional() }),
      z.strictObject({
        kind: z.literal('linearDecay'),
        warmup: duration.exactOptional(),
        floor: fraction.exactOptional(),
      }),
    ])
    .exactOptional(),
  clip: z.union([z.number().positive(), z.literal('none')]).exactOptional(),
  seed: count.exactOptional(),
  skipNonFinite: count.exactOptional(),
  validateEvery: lasting.exactOptional(),
})
