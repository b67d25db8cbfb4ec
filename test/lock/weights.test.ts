import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readWeights } from '../../sdk/lock/weights.ts'
import { llamaConfig, safetensors, temporaryFolder, tensors, writeWeights } from './fixtures.ts'

function read(replaced: Record<string, string | Uint8Array | null>) {
  const folder = temporaryFolder()
  writeWeights(folder, replaced)
  return readWeights(folder, null)
}

describe('readWeights', () => {
  it('reads config, tensor names, shapes and dtypes, and which tokenizer files there are', () => {
    const { entry, problems } = read({})
    expect(problems).toEqual([])
    expect(entry).toMatchObject({
      revision: null,
      config: llamaConfig,
      tensors,
      tokenizer: ['tokenizer.json', 'tokenizer_config.json'],
      image: null,
      statistics: {},
    })
  })

  it('follows the index over the shards', () => {
    const [first, second] = Object.entries(tensors)
    if (first === undefined || second === undefined) throw new Error('two tensors')
    const { entry, problems } = read({
      'model.safetensors': null,
      'model-00001-of-00002.safetensors': safetensors(Object.fromEntries([first])),
      'model-00002-of-00002.safetensors': safetensors(Object.fromEntries([second])),
      'model.safetensors.index.json': JSON.stringify({
        metadata: { total_size: 1 },
        weight_map: { [first[0]]: 'model-00001-of-00002.safetensors', [second[0]]: 'model-00002-of-00002.safetensors' },
      }),
    })
    expect(problems).toEqual([])
    expect(entry?.tensors).toEqual(tensors)
  })

  it('misses a shard that the index names, and refuses one outside the folder', () => {
    const shard = (file: string) => ({
      'model.safetensors': null,
      'model.safetensors.index.json': JSON.stringify({ weight_map: { a: file } }),
    })
    expect(read(shard('model-00001-of-00001.safetensors')).problems).toEqual([
      { kind: 'unreadable', file: 'model-00001-of-00001.safetensors', what: 'the file is missing' },
    ])
    expect(read(shard('../other.safetensors')).problems).toEqual([
      { kind: 'unreadable', file: 'model.safetensors.index.json', what: 'it has no weight_map' },
    ])
  })

  it('finds a file that is cut off, at every length', () => {
    const whole = safetensors(tensors)
    for (const length of [0, 5, 8, 20, whole.length - 1]) {
      const { problems } = read({ 'model.safetensors': whole.subarray(0, length) })
      expect(problems).toHaveLength(1)
      expect(problems[0]).toMatchObject({
        kind: 'unreadable',
        file: 'model.safetensors',
        what: expect.stringContaining('cut off') as string,
      })
    }
    expect(read({ 'model.safetensors': Buffer.concat([whole, Buffer.from('x')]) }).problems[0]).toMatchObject({
      what: expect.stringContaining('longer than its header says') as string,
    })
  })

  it('finds what is no safetensors file', () => {
    expect(read({ 'model.safetensors': Buffer.from('version https://git-lfs.github.com/spec/v1') }).problems).toEqual([
      {
        kind: 'unreadable',
        file: 'model.safetensors',
        what: 'it is not a safetensors file (the first eight bytes are no header length)',
      },
    ])
    const length = Buffer.alloc(8)
    length.writeBigUInt64LE(4n)
    expect(read({ 'model.safetensors': Buffer.concat([length, Buffer.from('oops')]) }).problems).toEqual([
      { kind: 'unreadable', file: 'model.safetensors', what: 'its header is not valid JSON' },
    ])
  })

  it('reads a single file', () => {
    const folder = temporaryFolder()
    writeWeights(folder, { 'config.json': null, 'tower.safetensors': safetensors(tensors) })
    expect(readWeights(join(folder, 'tower.safetensors'), null).entry?.tensors).toEqual(tensors)
  })

  it('does not open pickles', () => {
    expect(read({ 'model.safetensors': null, 'pytorch_model.bin': 'x' }).problems).toEqual([
      { kind: 'pickle', file: 'pytorch_model.bin' },
    ])
  })

  it('tells an adapter from whole weights', () => {
    const adapter = { 'adapter_config.json': JSON.stringify({ base_model_name_or_path: 'lerobot/smolvla_base' }) }
    const alone = read({ ...adapter, 'model.safetensors': null, 'adapter_model.safetensors': safetensors(tensors) })
    expect(alone.problems).toEqual([{ kind: 'adapter', base: 'lerobot/smolvla_base' }])
    expect(alone.entry?.tensors).toEqual({})
    const nameless = read({ 'adapter_config.json': '{}', 'model.safetensors': null })
    expect(nameless.problems).toEqual([{ kind: 'adapter', base: null }])
    // What was merged keeps the note of where it came from.
    expect(read(adapter).problems).toEqual([])
  })

  it('says when there is nothing', () => {
    const folder = temporaryFolder()
    expect(readWeights(join(folder, 'nothing'), null)).toEqual({ entry: undefined, problems: [{ kind: 'notFound' }] })
    expect(readWeights(folder, null).problems).toEqual([
      { kind: 'unreadable', file: 'config.json', what: 'the folder holds neither a config.json nor safetensors files' },
    ])
  })

  it('keeps no absolute path and no token', () => {
    const { entry } = read({
      'config.json': JSON.stringify({
        ...llamaConfig,
        _name_or_path: 'meta-llama/Llama-2-7b-hf',
        base: '/home/ana/models/llama',
        windows: 'C:\\models',
        nested: { path: '~/x', list: ['/a', 'b'] },
        auth: `hf_${'a'.repeat(34)}`,
      }),
    })
    expect(entry?.config).toEqual({ ...llamaConfig, nested: { list: ['b'] } })
  })

  it("reads OpenVLA's statistics, from either place", () => {
    const norm = { bridge: { action: { q01: [-0.1, 0], q99: [0.1, 1], mask: [true, false] }, num_transitions: 3 } }
    const expected = { bridge: { action: { q01: [-0.1, 0], q99: [0.1, 1], mask: [1, 0] } } }
    const inConfig = read({ 'config.json': JSON.stringify({ ...llamaConfig, norm_stats: norm }) })
    expect(inConfig.entry?.statistics).toEqual(expected)
    expect(inConfig.entry?.config).toEqual(llamaConfig)
    expect(read({ 'dataset_statistics.json': JSON.stringify(norm) }).entry?.statistics).toEqual(expected)
  })

  it("reads the image statistics of a processor, or of timm's config", () => {
    const [mean, std] = [
      [0.5, 0.5, 0.5],
      [0.2, 0.2, 0.2],
    ]
    expect(
      read({ 'preprocessor_config.json': JSON.stringify({ image_mean: mean, image_std: std }) }).entry?.image,
    ).toEqual({ mean, std })
    expect(
      read({ 'config.json': JSON.stringify({ architecture: 'x', pretrained_cfg: { mean, std } }) }).entry?.image,
    ).toEqual({ mean, std })
  })
})
