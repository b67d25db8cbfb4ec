/** How the processes share the work. */
import * as z from 'zod'

export interface Fsdp2Options {
  /**
   * `'full'`: parameters are resharded after the forward pass (FULL_SHARD, ZeRO-3). `'gradOp'`: they stay gathered from forward to
   * backward (SHARD_GRAD_OP, ZeRO-2): faster, for 2 bytes more per parameter.
   * @default 'full'
   */
  readonly shard?: 'full' | 'gradOp'
}

export interface Fsdp2 extends Fsdp2Options {
  readonly kind: 'fsdp2'
}

export interface Ddp {
  readonly kind: 'ddp'
}

export type Parallel = Fsdp2 | Ddp

/** Shard parameters, gradients and optimizer states over all processes with `fully_shard`: FULL_SHARD or SHARD_GRAD_OP. */
export function fsdp2(options?: Fsdp2Options): Fsdp2 {
  return { kind: 'fsdp2', ...options }
}

/** Replicate the model on every process (DistributedDataParallel). No freeze schedule that changes what trains. */
export function ddp(): Ddp {
  return { kind: 'ddp' }
}

export const parallelSchema: z.ZodType<Parallel> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('fsdp2'), shard: z.enum(['full', 'gradOp']).exactOptional() }),
  z.strictObject({ kind: z.literal('ddp') }),
])
