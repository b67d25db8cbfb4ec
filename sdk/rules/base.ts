/** The pipeline that the rules' examples change. Property by property: an example's properties replace those of the same name. */
import type { MergePatch } from './rule.ts'

/** What stands before `export default defineVLAPipeline({ … })`. */
export const BASE_HEAD = `const tower = timmVision('convnext_atto', { weights: './weights/tower', imageSize: 64, output: 'map', layer: 0 })
const keyPoints = spatialSoftArgmax({ points: 32 })
const trunk = causalLM('./weights/trunk')`

export const BASE_PIPELINE: Readonly<Record<string, string>> = {
  name: `name: 'example'`,
  model: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, state: true, action: regression({ chunk: 8 }), promptTokens: 96 })`,
  data: `data: lerobotDataset({ root: 'data/reach' })`,
  cameras: `cameras: { front: 'observation.image' }`,
  hardware: `hardware: cpus({ processes: 2 })`,
  training: `training: { updates: 1_000, globalBatch: 64, microBatch: 32, lr: 1e-3 }`,
}

const vector = (width: number): MergePatch => ({ dtype: 'float32', shape: [width], names: null })
const image = (size: number): MergePatch => ({
  dtype: 'image',
  shape: [size, size, 3],
  names: ['height', 'width', 'channels'],
})
const statistics = (width: number): MergePatch =>
  Object.fromEntries(
    Object.entries({ mean: 0.1, std: 0.4, min: -1, max: 1, q01: -0.9, q99: 0.9 }).map(([name, value]) => [
      name,
      Array.from({ length: width }, () => value),
    ]),
  )

/** Of weights whose files are elsewhere: the configuration and the tokenizer are at hand. */
const pretrained = (config: MergePatch): MergePatch => ({
  revision: null,
  fingerprint: '0'.repeat(64),
  config,
  image: null,
  tokenizer: ['tokenizer.json'],
  tensors: {},
  statistics: {},
})

/** What vla.lock.json knows of the base pipeline's dataset. */
export const BASE_LOCK: MergePatch = {
  schemaVersion: 1,
  datasets: {
    'data/reach': {
      repo: null,
      revision: null,
      fingerprint: '0'.repeat(64),
      codebaseVersion: 'v3.0',
      robotType: null,
      fps: 80,
      episodes: 100,
      frames: 6_000,
      features: { 'observation.image': image(64), 'observation.state': vector(4), action: vector(4) },
      statistics: { 'observation.state': statistics(4), action: statistics(4) },
    },
  },
  weights: {
    'weights/tower': pretrained(null),
    'weights/trunk': pretrained({
      model_type: 'llama',
      hidden_size: 128,
      intermediate_size: 256,
      num_hidden_layers: 4,
      num_attention_heads: 4,
      vocab_size: 320,
      eos_token_id: 2,
    }),
  },
}
