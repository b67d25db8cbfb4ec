/** LeRobot's policy families: what the rest of the compiler asks of them. */
import type { ModuleFacts } from './model.ts'

/** Fields of a policy's configuration, by LeRobot's names. */
export type PolicyConfig = Readonly<Record<string, unknown>>

/** What sizes depend on. */
export interface PolicySizes {
  readonly config: PolicyConfig
  readonly cameras: number
  readonly stateDim: number | undefined
  readonly actionDim: number | undefined
}

export interface PolicyFamily {
  readonly type: string
  /** Cameras of the published policy; empty where there is none. */
  readonly cameras: readonly string[]
  readonly modules: readonly string[]
  /** LeRobot's field for the actions per prediction. */
  readonly chunkField: string
  readonly defaults: PolicyConfig
  readonly normalization: {
    readonly state: 'meanStd' | 'minMax' | 'quantiles' | 'identity'
    readonly action: 'meanStd' | 'minMax' | 'quantiles' | 'identity'
    readonly visual: 'identity' | 'imagenet' | 'dataset'
  }
  readonly loss: 'perElement' | 'terms' | 'validCount'
  readonly describe: (sizes: PolicySizes) => ModuleFacts[]
}

const families: Readonly<Record<string, PolicyFamily>> = {}

/** The family of a LeRobot policy type; undefined where the catalog does not describe it. */
export function policyFamily(type: string): PolicyFamily | undefined {
  return Object.hasOwn(families, type) ? families[type] : undefined
}
