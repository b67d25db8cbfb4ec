/** Rollouts in a simulator. */
import * as z from 'zod'

import type { MetaworldTask } from '../catalog/metaworld.ts'
import { count, positive, text } from './common.ts'

export interface SimulationOptions {
  /** Simulator: MetaWorld through LeRobot's environment. */
  readonly env: 'metaworld'
  /** Tasks, `['reach-v3']`. */
  readonly tasks: readonly (MetaworldTask | (string & {}))[]
  /**
   * Episodes per task.
   * @default 20
   */
  readonly episodes?: number
  /**
   * Steps after which an episode counts as failed.
   * @default 500 (LeRobot's horizon)
   */
  readonly maxSteps?: number
  /**
   * Side of the rendered image in pixels, as recorded.
   * @default 480 (LeRobot's own)
   */
  readonly imageSize?: number
  /**
   * Seed of the first episode; choose seeds that were not recorded.
   * @default 10_000
   */
  readonly firstSeed?: number
  /**
   * Actions of a predicted chunk that are executed before the policy is asked again.
   * @default the whole chunk
   */
  readonly actionSteps?: number
}

export interface Simulation extends SimulationOptions {
  readonly kind: 'simulation'
}

/** Roll the packaged policy out in a simulator. */
export function simulation(options: SimulationOptions): Simulation {
  return { kind: 'simulation', ...options }
}

export const evaluateSchema: z.ZodType<Simulation> = z.strictObject({
  kind: z.literal('simulation'),
  env: z.literal('metaworld'),
  tasks: z.array(text).min(1),
  episodes: positive.exactOptional(),
  maxSteps: positive.exactOptional(),
  imageSize: positive.exactOptional(),
  firstSeed: count.exactOptional(),
  actionSteps: positive.exactOptional(),
})
