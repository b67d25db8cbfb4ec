/** Where metrics go. JSON lines are always written; the checkpoint's resume reads them. */
import * as z from 'zod'

import { text } from './common.ts'

export interface TensorBoard {
  readonly kind: 'tensorboard'
}
export interface JsonLines {
  readonly kind: 'jsonl'
}
export interface WandbOptions {
  /** Project on Weights & Biases. The API key comes from the environment (WANDB_API_KEY). */
  readonly project: string
  /**
   * User or team.
   * @default the account's own
   */
  readonly entity?: string
}
export interface Wandb extends WandbOptions {
  readonly kind: 'wandb'
}

export type Tracker = TensorBoard | JsonLines | Wandb

/** TensorBoard event files in the run directory. */
export function tensorboard(): TensorBoard {
  return { kind: 'tensorboard' }
}

/** One JSON object per update in the run directory; always on. */
export function jsonl(): JsonLines {
  return { kind: 'jsonl' }
}

/** Weights & Biases. */
export function wandb(options: WandbOptions): Wandb {
  return { kind: 'wandb', ...options }
}

export const trackSchema: z.ZodType<readonly Tracker[]> = z.array(
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('tensorboard') }),
    z.strictObject({ kind: z.literal('jsonl') }),
    z.strictObject({ kind: z.literal('wandb'), project: text, entity: text.exactOptional() }),
  ]),
)
