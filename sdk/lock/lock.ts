/**
 * `vla.lock.json`: what was read from the outside world, so that a build needs neither the data nor the weights.
 *
 * It is committed beside pipeline.ts. It holds no absolute path and no secret: sources are written as in the declaration, and a
 * source that the declaration gives as an absolute path is known by its last folder and a hash.
 */
import * as z from 'zod'

const count = z.number().int().nonnegative()
/** One number per dimension; null stands for NaN or an infinity in the source. */
const values = z.array(z.number().nullable())

const feature = z.strictObject({
  dtype: z.string(), // LeRobot's: float32, int64, image, video, string, bool
  shape: z.array(count), // images: [height, width, channels] as stored
  names: z.array(z.string()).nullable(), // of the dimensions
})

export const datasetEntry = z.strictObject({
  repo: z.string().nullable(),
  revision: z.string().nullable(),
  fingerprint: z.string(), // sha256 over the files in meta/
  codebaseVersion: z.string(),
  robotType: z.string().nullable(),
  fps: z.number().positive(),
  episodes: count,
  frames: count,
  features: z.record(z.string(), feature),
  statistics: z.record(z.string(), z.record(z.string(), values)), // feature -> statistic -> values; vectors only, no images
})

const tensor = z.strictObject({ dtype: z.string(), shape: z.array(count) }) // dtype as in safetensors: BF16, F32

export const weightsEntry = z.strictObject({
  revision: z.string().nullable(),
  fingerprint: z.string(), // sha256 over configs and safetensors headers
  config: z.record(z.string(), z.json()).nullable(), // config.json without norm_stats, paths and tokens
  image: z.strictObject({ mean: z.array(z.number()), std: z.array(z.number()) }).nullable(), // preprocessor_config.json, or timm's pretrained_cfg
  tokenizer: z.array(z.string()), // the tokenizer's files that are there
  tensors: z.record(z.string(), tensor), // empty: nothing but configs is there
  statistics: z.record(z.string(), z.record(z.string(), z.record(z.string(), values))), // dataset -> action | proprio -> statistic -> values
})

export const lockSchema = z.strictObject({
  schemaVersion: z.literal(1),
  datasets: z.record(z.string(), datasetEntry), // by `sourceKey`
  weights: z.record(z.string(), weightsEntry), // by `sourceKey`
})

export type Lock = z.infer<typeof lockSchema>
export type DatasetEntry = z.infer<typeof datasetEntry>
export type WeightsEntry = z.infer<typeof weightsEntry>
export type TensorEntry = z.infer<typeof tensor>
