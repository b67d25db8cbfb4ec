/** Where the demonstrations come from. */
import * as z from 'zod'

import { count, share, text, type Share } from './common.ts'

export interface LerobotDatasetOptions {
  /**
   * Hub id, `'lerobot/bridge'`. Give `repo`, `root`, or both (the local copy of a repository).
   * @default none: the dataset is in `root` alone
   */
  readonly repo?: string
  /**
   * Local directory of the dataset, relative to pipeline.ts.
   * @default none: the dataset is on the hub
   */
  readonly root?: string
  /**
   * Revision of the repository: a commit, tag or branch. The lock pins it to a commit.
   * @default LeRobot's: the tag of its format (v3.0)
   */
  readonly revision?: string
  /**
   * Episodes to use, by index.
   * @default all
   */
  readonly episodes?: readonly number[]
  /**
   * Episodes kept out of training, which get a loss of their own: indices, or a share (`'5%'`, the last ones).
   * @default none
   */
  readonly holdout?: readonly number[] | Share
  /**
   * Key of this dataset's statistics in every package.
   * @default the last part of `repo` or `root`
   */
  readonly name?: string
  /**
   * Feature that holds the proprioception.
   * @default 'observation.state'
   */
  readonly state?: string
  /**
   * Feature that holds the actions.
   * @default 'action'
   */
  readonly action?: string
}

export interface LerobotDataset extends LerobotDatasetOptions {
  readonly kind: 'lerobotDataset'
}

/** Camera of the model -> image feature of the dataset. */
export type CameraMap<Cameras extends string = string> = { readonly [C in Cameras]?: string }

/** One dataset of a weighted list. */
export interface MixtureEntry<Cameras extends string = string> {
  /** The dataset. */
  readonly from: LerobotDataset
  /** Share of the samples, relative to the other entries' weights. */
  readonly weight: number
  /**
   * Camera of the model -> image feature of this dataset; wins over the pipeline's `cameras`.
   * @default the pipeline's `cameras`; else the feature that alone can be meant
   */
  readonly cameras?: CameraMap<Cameras>
}

export type Data<Cameras extends string = string> =
  LerobotDataset | readonly [MixtureEntry<Cameras>, ...MixtureEntry<Cameras>[]]

/** A LeRobot dataset (format v3.0), local or on the hub. */
export function lerobotDataset(options: LerobotDatasetOptions): LerobotDataset {
  return { kind: 'lerobotDataset', ...options }
}

export const lerobotDatasetSchema: z.ZodType<LerobotDataset> = z.strictObject({
  kind: z.literal('lerobotDataset'),
  repo: text.exactOptional(),
  root: text.exactOptional(),
  revision: text.exactOptional(),
  episodes: z.array(count).min(1).exactOptional(),
  holdout: z.union([z.array(count), share]).exactOptional(),
  name: text.exactOptional(),
  state: text.exactOptional(),
  action: text.exactOptional(),
})

export const camerasSchema: z.ZodType<CameraMap> = z.record(z.string(), text)

export const mixtureEntrySchema: z.ZodType<MixtureEntry> = z.strictObject({
  from: lerobotDatasetSchema,
  weight: z.number().positive(),
  cameras: camerasSchema.exactOptional(),
})

export const dataSchema: z.ZodType<Data> = z.union(
  [
    lerobotDatasetSchema,
    z.array(mixtureEntrySchema).min(1) as unknown as z.ZodType<readonly [MixtureEntry, ...MixtureEntry[]]>,
  ],
  { error: 'expected lerobotDataset(...) or a list of { from, weight }' },
)
