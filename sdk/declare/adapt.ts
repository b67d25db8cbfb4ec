/** Low-rank adapters. */
import * as z from 'zod'

import { positive, text } from './common.ts'

export interface LoraOptions<Targets extends readonly string[] = readonly string[]> {
  /** Rank of the adapters. */
  readonly rank: number
  /**
   * Scale numerator: the adapter's output is multiplied by alpha / rank.
   * @default the rank, at most 16 (OpenVLA's finetune.py: min(rank, 16))
   */
  readonly alpha?: number
  /**
   * Dropout on the adapter's input, 0 to below 1.
   * @default 0
   */
  readonly dropout?: number
  /**
   * Names of the linears to adapt, as ends of their paths (`['q_proj', 'v_proj']`).
   * @default every linear of the module
   */
  readonly targets?: Targets
}

export interface Lora extends LoraOptions {
  readonly kind: 'lora'
}

/** Adapters on layers that the user names. */
export interface TargetedLora extends Lora {
  /** Names of the layers to adapt, convolutions too, as ends of their paths. */
  readonly targets: readonly string[]
}

/** peft LoRA on the linears of the module, injected before sharding. `freeze` then speaks of the adapters; the base stays frozen. */
export function lora<const Targets extends readonly string[] = never>(
  options: LoraOptions<Targets>,
): [Targets] extends [never] ? Lora : TargetedLora {
  const adapters: Lora = { kind: 'lora', ...options }
  // With targets it is a TargetedLora; the compiler cannot follow that through the spread.
  return adapters as [Targets] extends [never] ? Lora : TargetedLora
}

export const loraSchema: z.ZodType<Lora> = z.strictObject({
  kind: z.literal('lora'),
  rank: positive,
  alpha: z.number().positive().exactOptional(),
  dropout: z.number().min(0).lt(1).exactOptional(),
  targets: z.array(text).min(1).exactOptional(),
})
