/** Reads a weights directory, or one safetensors file: configs, tensor names, shapes and dtypes. No tensor is read. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type * as z from 'zod'
import { canonicalHash } from '../plan/canonical.ts'
import { isRecord, readJsonObject, Unreadable } from './json.ts'
import type { WeightsEntry } from './lock.ts'
import { readSafetensorsHeader } from './safetensors.ts'

type Json = z.core.util.JSONType

/** Something wrong with a weights directory. */
export type WeightsProblem =
  | { readonly kind: 'notFound' }
  | { readonly kind: 'pickle'; readonly file: string }
  | { readonly kind: 'adapter'; /** What it was trained on, as it says. */ readonly base: string | null }
  | { readonly kind: 'unreadable'; readonly file: string; readonly what: string }

const tokenizerFiles = [
  'tokenizer.json',
  'tokenizer.model',
  'vocab.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
]

/**
 * What a weights directory holds. Whatever is wrong comes back as a problem; what could be read comes back all the same.
 *
 * @param path - absolute; a directory or a file
 */
export function readWeights(
  path: string,
  revision: string | null,
): { entry: WeightsEntry | undefined; problems: WeightsProblem[] } {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return { entry: undefined, problems: [{ kind: 'notFound' }] }
  const folder = found.isDirectory() ? path : dirname(path)
  const problems: WeightsProblem[] = []
  const attempt = <T>(read: () => T): T | undefined => {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      problems.push({ kind: 'unreadable', file: error.file, what: error.message })
      return undefined
    }
  }
  const json = (file: string): Record<string, unknown> | undefined =>
    existsSync(join(folder, file)) ? attempt(() => readJsonObject(join(folder, file), file).value) : undefined

  const config = json('config.json')
  const preprocessor = json('preprocessor_config.json')
  const statistics = json('dataset_statistics.json') ?? (isRecord(config?.norm_stats) ? config.norm_stats : {})
  const files = found.isDirectory() ? weightFiles(folder, json, problems) : [basename(path)]
  const tensors: WeightsEntry['tensors'] = {}
  const whole = files.filter((file) => !/^adapter_model\./.test(file))
  const adapter = whole.length === 0 && found.isDirectory() ? json('adapter_config.json') : undefined
  if (adapter !== undefined) {
    const base: unknown = adapter.base_model_name_or_path
    problems.push({ kind: 'adapter', base: typeof base === 'string' && base !== '' ? base : null })
  }
  for (const file of adapter === undefined ? files : []) {
    if (!file.endsWith('.safetensors')) problems.push({ kind: 'pickle', file })
    else
      Object.assign(
        tensors,
        attempt(() => readSafetensorsHeader(join(folder, file), file).tensors),
      )
  }
  if (config === undefined && files.length === 0 && problems.length === 0) {
    problems.push({
      kind: 'unreadable',
      file: 'config.json',
      what: 'the folder holds neither a config.json nor safetensors files',
    })
  }
  const read = {
    config: config === undefined ? null : publicConfig(config),
    image:
      imageStatistics(preprocessor) ??
      imageStatistics(isRecord(config?.pretrained_cfg) ? config.pretrained_cfg : undefined) ??
      null,
    tokenizer: tokenizerFiles.filter((file) => existsSync(join(folder, file))),
    tensors,
    statistics: actionStatistics(statistics),
  }
  return { entry: { revision, fingerprint: canonicalHash(read), ...read }, problems }
}

/** The files that hold the weights: those of the index, or the single file. */
function weightFiles(
  folder: string,
  json: (file: string) => Record<string, unknown> | undefined,
  problems: WeightsProblem[],
): string[] {
  const index = json('model.safetensors.index.json')
  if (index !== undefined) {
    const map = index.weight_map
    if (!isRecord(map) || !Object.values(map).every((file) => typeof file === 'string' && !/[\\/]/.test(file))) {
      problems.push({ kind: 'unreadable', file: 'model.safetensors.index.json', what: 'it has no weight_map' })
      return []
    }
    return [...new Set(Object.values(map) as string[])].sort()
  }
  const names = readdirSync(folder)
  const safe = names.filter((name) => name.endsWith('.safetensors')).sort()
  if (safe.length > 0) return safe.includes('model.safetensors') ? ['model.safetensors'] : safe
  return names
    .filter((name) => /\.(bin|pt|pth)$/.test(name))
    .sort()
    .slice(0, 1)
}

/** The config without what is long, private or only true on one machine. */
function publicConfig(config: Record<string, unknown>): Record<string, Json> {
  const kept = { ...config }
  delete kept.norm_stats
  return withoutPrivate(kept) as Record<string, Json>
}

/** Drops absolute paths and access tokens, wherever they stand. */
function withoutPrivate(value: unknown): Json {
  if (Array.isArray(value)) return value.filter(isPublic).map(withoutPrivate)
  if (!isRecord(value)) return value as Json
  const entries = Object.entries(value).filter(([key, child]) => !key.endsWith('name_or_path') && isPublic(child))
  return Object.fromEntries(entries.map(([key, child]) => [key, withoutPrivate(child)]))
}

function isPublic(value: unknown): boolean {
  return typeof value !== 'string' || !/^([/\\~]|[A-Za-z]:[\\/])|\b(hf_|sk-|ghp_)[A-Za-z0-9]{16,}/.test(value)
}

function imageStatistics(config: Record<string, unknown> | undefined): WeightsEntry['image'] | undefined {
  const mean: unknown = config?.image_mean ?? config?.mean
  const std: unknown = config?.image_std ?? config?.std
  const three = (list: unknown): list is number[] =>
    Array.isArray(list) && list.length === 3 && list.every((value) => typeof value === 'number')
  return three(mean) && three(std) ? { mean, std } : undefined
}

function actionStatistics(given: Record<string, unknown>): WeightsEntry['statistics'] {
  const read: WeightsEntry['statistics'] = {}
  for (const [dataset, parts] of Object.entries(given)) {
    if (!isRecord(parts)) continue
    const kept: Record<string, Record<string, (number | null)[]>> = {}
    for (const part of ['action', 'proprio']) {
      const statistics = parts[part]
      if (!isRecord(statistics)) continue
      const lists = Object.entries(statistics).filter(([, list]) => Array.isArray(list)) as [string, unknown[]][]
      kept[part] = Object.fromEntries(lists.map(([name, list]) => [name, list.map(asNumber)]))
    }
    if (Object.keys(kept).length > 0) read[dataset] = kept
  }
  return read
}

/** Masks become 0 and 1; what is not finite becomes null. */
function asNumber(value: unknown): number | null {
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}
