/** What a lock may know of the datasets and weights that a declaration names. */
import { declaredDatasets, declaredWeights } from '../../sdk/lock/declared.ts'
import type { DatasetEntry, Lock, WeightsEntry } from '../../sdk/lock/lock.ts'
import { CAMERA_FEATURES } from './declarations.ts'
import type { Draw } from './draw.ts'

/** Entries for most of what is named; now and then no lock at all. */
export function drawLock(declaration: unknown, d: Draw): Lock | undefined {
  if (d.chance(0.05)) return undefined
  const width = d.pick([4, 7])
  const datasets = declaredDatasets(declaration).filter(() => d.chance(0.9))
  const weights = declaredWeights(declaration).filter(() => d.chance(0.7))
  return {
    schemaVersion: 1,
    datasets: Object.fromEntries(datasets.map(({ key }) => [key, drawDatasetEntry(d, d.chance(0.95) ? width : 9)])),
    weights: Object.fromEntries(weights.map(({ key }) => [key, drawWeightsEntry(d)])),
  }
}

type Statistics = DatasetEntry['statistics'][string]

function drawStatistics(d: Draw, width: number): Statistics {
  const scale = d.pick([1, 1, 1, 100, 1e-6])
  const plain = { min: -1, max: 1, mean: 0.1, std: 0.4, q01: -0.9, q99: 0.9 }
  const statistics: Statistics = Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [name, Array.from({ length: width }, () => value * scale)]),
  )
  if (d.chance(0.9)) return statistics
  const name = d.pick(Object.keys(plain))
  const values = statistics[name] ?? []
  const wild = d.pick([null, 0, 1e30, -1e30, 'absent', 'short', 'empty', 'constant'] as const)
  if (wild === 'absent') Reflect.deleteProperty(statistics, name)
  else if (wild === 'short') values.pop()
  else if (wild === 'empty') values.length = 0
  else if (wild === 'constant') for (const each of Object.values(statistics)) each[0] = 0
  else values[0] = wild
  return statistics
}

export function drawDatasetEntry(d: Draw, width: number): DatasetEntry {
  const episodes = d.pick([1, 20, 100, 1_000])
  const names = d.chance(0.3) ? Array.from({ length: width }, (_, index) => `joint_${String(index)}`) : null
  const side = d.pick([64, 64, 224, 480])
  const dtype = d.pick(['image', 'video'])
  const vector = { dtype: 'float32', shape: [width], names }
  const cameras = CAMERA_FEATURES.filter(() => d.chance(0.95))
  return {
    repo: null,
    revision: null,
    fingerprint: 'f'.repeat(64),
    codebaseVersion: 'v3.0',
    robotType: d.pick([null, 'so101']),
    fps: d.pick([80, 30, 10, 0.5]),
    episodes,
    frames: episodes * d.pick([1, 50, 300]),
    features: {
      ...Object.fromEntries(
        cameras.map((name) => [name, { dtype, shape: [side, side, 3], names: ['height', 'width', 'channels'] }]),
      ),
      ...d.maybe(0.95, () => ({ 'observation.state': vector })),
      ...d.maybe(0.98, () => ({
        action: d.chance(0.98)
          ? vector
          : d.pick([
              { ...vector, shape: [] },
              { ...vector, shape: [0] },
              { ...vector, dtype: 'string' },
            ]),
      })),
      timestamp: { dtype: 'float32', shape: [1], names: null },
    },
    statistics: {
      ...d.maybe(0.95, () => ({ 'observation.state': drawStatistics(d, width) })),
      ...d.maybe(0.97, () => ({ action: drawStatistics(d, width) })),
    },
  }
}

/** A model's config, sometimes of another kind or broken. */
function drawConfig(d: Draw): WeightsEntry['config'] {
  if (d.chance(0.1)) return null
  const sizes = {
    hidden_size: 64,
    intermediate_size: 128,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    vocab_size: 320,
    image_size: 224,
    patch_size: 16,
  }
  const config: NonNullable<WeightsEntry['config']> = {
    model_type: d.pick(['llama', 'qwen2', 'siglip_vision_model', 'dinov2', 'bert', 'openvla']),
    ...sizes,
    ...d.maybe(0.1, () => ({ vision_config: { ...sizes, model_type: 'siglip_vision_model' } })),
    ...d.maybe(0.2, () => ({ type: d.pick(['act', 'pi0', 'smolvla']), chunk_size: d.pick([16, 50, '50']) })),
  }
  if (d.chance(0.15)) config[d.pick(Object.keys(sizes))] = d.pick([null, -1, 0, 0.5, '64', [], {}, true, 1e15])
  return config
}

export function drawWeightsEntry(d: Draw): WeightsEntry {
  const four = { mean: [0, 0, 0, 0], std: [1, 1, 1, 1], q01: [-1, -1, -1, -1], q99: [1, 1, 1, null] }
  return {
    revision: d.pick([null, 'main']),
    fingerprint: '0'.repeat(64),
    config: drawConfig(d),
    image: d.pick([null, { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }, { mean: [0.5], std: [0] }]),
    tokenizer: d.some(['tokenizer.json', 'tokenizer_config.json'], d.int(0, 2)),
    tensors: d.maybe(0.5, () => ({
      'model.embed_tokens.weight': { dtype: d.pick(['BF16', 'F32', 'I64']), shape: d.pick([[320, 64], [1], []]) },
      __proto__: { dtype: 'F32', shape: [1] },
    })),
    statistics: d.maybe(0.2, () => ({ bridge: { action: four }, arm: { action: four, proprio: four } })),
  }
}
