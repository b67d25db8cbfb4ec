/** Small datasets and weights directories, written as LeRobot 0.6.1 and safetensors write them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A temporary folder that is removed after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vla-lock-'))
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}

export function writeFile(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}

/** A feature of info.json. */
export interface Feature {
  dtype: string
  shape: number[]
  names: unknown
}

const camera = { dtype: 'image', shape: [64, 48, 3], names: ['height', 'width', 'channels'] }
const vector = { dtype: 'float32', shape: [4], names: null }
const automatic = { dtype: 'int64', shape: [1], names: null }

export const features: Record<string, Feature> = {
  'observation.image': camera,
  'observation.state': vector,
  action: { ...vector, names: { motors: ['x', 'y', 'z', 'gripper'] } },
  timestamp: { ...automatic, dtype: 'float32' },
  index: automatic,
}

export function info(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    codebase_version: 'v3.0',
    fps: 80,
    features,
    total_episodes: 20,
    total_frames: 400,
    total_tasks: 1,
    chunks_size: 1000,
    data_path: 'data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet',
    video_path: null,
    robot_type: null,
    splits: { train: '0:20' },
    ...changes,
  }
}

const four = (base: number): number[] => [base, base + 1, base + 2, base + 3]

export function stats(): Record<string, unknown> {
  const vectorStats = {
    min: four(-1),
    max: four(1),
    mean: four(0),
    std: four(0.5),
    count: [400],
    q01: four(-0.9),
    q10: four(-0.5),
    q50: four(0),
    q90: four(0.5),
    q99: four(0.9),
  }
  return {
    'observation.state': vectorStats,
    action: vectorStats,
    'observation.image': { mean: [[[0.5]], [[0.5]], [[0.5]]], std: [[[0.2]], [[0.2]], [[0.2]]], count: [400] },
    timestamp: { min: [0], max: [0.25] },
  }
}

/** A Parquet file without columns, of some rows: its footer in Thrift's compact protocol. */
export function parquet(rows: number): Buffer {
  const count: number[] = []
  for (let left = 2 * rows; ; left = Math.floor(left / 128)) {
    count.push(left < 128 ? left : (left % 128) + 128)
    if (left < 128) break
  }
  // version 1; a schema with the root 's' alone; num_rows; no row group
  const metadata = [0x15, 0x02, 0x19, 0x1c, 0x48, 0x01, 0x73, 0x15, 0x00, 0x00, 0x16, ...count, 0x19, 0x0c, 0x00]
  return Buffer.concat([Buffer.from('PAR1'), Buffer.from([...metadata, metadata.length, 0, 0, 0]), Buffer.from('PAR1')])
}

/** A whole dataset. Replace a file by its path; `null` leaves it out. */
export function writeDataset(folder: string, replaced: Record<string, string | Uint8Array | null> = {}): void {
  const files: Record<string, string | Uint8Array | null> = {
    'meta/info.json': JSON.stringify(info(), null, 4),
    'meta/stats.json': JSON.stringify(stats(), null, 4),
    'meta/tasks.parquet': parquet(1),
    'meta/episodes/chunk-000/file-000.parquet': parquet(20),
    'data/chunk-000/file-000.parquet': parquet(300),
    'data/chunk-000/file-001.parquet': parquet(100),
    ...replaced,
  }
  for (const [file, content] of Object.entries(files)) if (content !== null) writeFile(join(folder, file), content)
}

const bytesOf: Record<string, number> = { F32: 4, BF16: 2, F64: 8 }

/** A safetensors file of zeros. */
export function safetensors(tensors: Record<string, { dtype: string; shape: number[] }>): Buffer {
  let end = 0
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } }
  for (const [name, { dtype, shape }] of Object.entries(tensors)) {
    const size = shape.reduce((product, side) => product * side, bytesOf[dtype] ?? 1)
    header[name] = { dtype, shape, data_offsets: [end, end + size] }
    end += size
  }
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  return Buffer.concat([length, text, Buffer.alloc(end)])
}

export const tensors = {
  'model.embed_tokens.weight': { dtype: 'BF16', shape: [320, 8] },
  'model.layers.0.mlp.up_proj.weight': { dtype: 'BF16', shape: [16, 8] },
}

export const llamaConfig = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  hidden_size: 8,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  intermediate_size: 16,
  vocab_size: 320,
}

/** A causal language model's directory. Replace a file by its path; `null` leaves it out. */
export function writeWeights(folder: string, replaced: Record<string, string | Uint8Array | null> = {}): void {
  const files: Record<string, string | Uint8Array | null> = {
    'config.json': JSON.stringify(llamaConfig),
    'model.safetensors': safetensors(tensors),
    'tokenizer.json': '{}',
    'tokenizer_config.json': '{}',
    ...replaced,
  }
  for (const [file, content] of Object.entries(files)) if (content !== null) writeFile(join(folder, file), content)
}
