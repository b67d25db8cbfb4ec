/** What the run has to run on. */
import * as z from 'zod'

import type { GpuName } from '../catalog/gpus.ts'
import type { KnownGpu, UnknownGpuText } from './check.ts'
import { positive, text, type VlaTypeError } from './common.ts'

export interface GpuOptions {
  /**
   * GPUs of each node.
   * @default 1
   */
  readonly perNode?: number
  /**
   * Nodes, each with `perNode` GPUs.
   * @default 1
   */
  readonly nodes?: number
  /**
   * Host memory of each node in bytes: `gib(512)`.
   * @default not known: rules that need it do not look
   */
  readonly hostMemory?: number
  /**
   * Network between the nodes, for the record: `'ib-400'`.
   * @default none
   */
  readonly network?: string
}

export interface Gpus extends GpuOptions {
  readonly kind: 'gpus'
  /** Name in the catalog. */
  readonly gpu: string
}

export interface Cpus {
  readonly kind: 'cpus'
  /** Processes, one gloo rank each. */
  readonly processes: number
}

export type Hardware = Gpus | Cpus

declare const device: unique symbol

/** What the compiler knows of the hardware: the name of the GPU, or 'cpu'. No value has this field. */
export interface Device<G extends string> {
  readonly [device]?: { readonly gpu: G }
}

/** GPUs of one kind, by the name of the catalog: `gpus('H100-SXM-80GB', { perNode: 8, nodes: 2 })`. */
export function gpus<const G extends GpuName | VlaTypeError<UnknownGpuText>>(
  gpu: G,
  options?: GpuOptions,
): Gpus & Device<KnownGpu<G>> {
  return { kind: 'gpus', gpu: gpu as G & string, ...options }
}

/** Processes on CPUs of this machine, for small models and for verification. */
export function cpus(options: Pick<Cpus, 'processes'>): Cpus & Device<'cpu'> {
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
