/** What the run has to run on. */
import * as z from 'zod'

import { positive, text } from './common.ts'

export interface GpuOptions {
  /**
   * GPUs of each node.
   * @default 1
   */
  readonly perNode?: number
  /**
   * Nodes.
   * @default 1
   */
  readonly nodes?: number
  /** Host memory of each node in bytes: `gib(512)`. */
  readonly hostMemory?: number
  /** Network between the nodes, for the record: `'ib-400'`. */
  readonly network?: string
}

export interface Gpus<G extends string = string> extends GpuOptions {
  readonly kind: 'gpus'
  readonly gpu: G
}

export interface Cpus {
  readonly kind: 'cpus'
  /** Processes, one gloo rank each. */
  readonly processes: number
}

export type Hardware = Gpus | Cpus

/** GPUs of one kind, by the name of the catalog: `gpus('H100-SXM-80GB', { perNode: 8, nodes: 2 })`. */
export function gpus<const G extends string>(gpu: G, options?: GpuOptions): Gpus<G> {
  return { kind: 'gpus', gpu, ...options }
}

/** Processes on CPUs of this machine, for small models and for verification. */
export function cpus(options: { readonly processes: number }): Cpus {
  return { kind: 'cpus', ...options }
}

export const hardwareSchema: z.ZodType<Hardware> = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('gpus'),
    gpu: text,
    perNode: positive.exactOptional(),
    nodes: positive.exactOptional(),
    hostMemory: positive.exactOptional(),
    network: text.exactOptional(),
  }),
  z.strictObject({ kind: z.literal('cpus'), processes: positive }),
])
