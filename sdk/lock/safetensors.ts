/** The header of a safetensors file: names, dtypes and shapes, without reading a tensor. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { isRecord, readingFailed, Unreadable } from './json.ts'
import type { TensorEntry } from './lock.ts'

/** The format's own limit. */
const longestHeader = 100_000_000

/**
 * Reads the header and checks that the file is as long as the header says.
 *
 * @param file - how messages name it
 * @throws {Unreadable} when it is missing, no safetensors file, or cut off
 */
export function readSafetensorsHeader(
  path: string,
  file: string,
): { tensors: Record<string, TensorEntry>; header: string } {
  let descriptor: number
  try {
    descriptor = openSync(path, 'r')
  } catch (error) {
    throw new Unreadable(file, readingFailed(error))
  }
  try {
    const size = fstatSync(descriptor).size
    const head = read(descriptor, 8, 0, file)
    const length = Number(head.readBigUInt64LE())
    if (length > longestHeader || length < 2) {
      throw new Unreadable(file, 'it is not a safetensors file (the first eight bytes are no header length)')
    }
    if (size < 8 + length) throw new Unreadable(file, `it is cut off inside its header (${size} bytes)`)
    const header = read(descriptor, length, 8, file).toString('utf8')
    const { tensors, end } = parse(header, file)
    if (size !== 8 + length + end) {
      const is = size < 8 + length + end ? 'cut off' : 'longer than its header says'
      throw new Unreadable(file, `it is ${is}: ${size} bytes, expected ${8 + length + end}`)
    }
    return { tensors, header }
  } finally {
    closeSync(descriptor)
  }
}

function read(descriptor: number, length: number, position: number, file: string): Buffer {
  const buffer = Buffer.alloc(length)
  let done = 0
  while (done < length) {
    let got: number
    try {
      got = readSync(descriptor, buffer, done, length - done, position + done)
    } catch (error) {
      throw new Unreadable(file, readingFailed(error))
    }
    if (got === 0) throw new Unreadable(file, `it is cut off after ${position + done} bytes`)
    done += got
  }
  return buffer
}

function parse(header: string, file: string): { tensors: Record<string, TensorEntry>; end: number } {
  let parsed: unknown
  try {
    parsed = JSON.parse(header)
  } catch {
    throw new Unreadable(file, 'its header is not valid JSON')
  }
  if (!isRecord(parsed)) throw new Unreadable(file, 'its header is not a JSON object')
  const tensors: Record<string, TensorEntry> = {}
  let end = 0
  for (const [name, value] of Object.entries(parsed)) {
    if (name === '__metadata__') continue
    if (!isRecord(value) || typeof value.dtype !== 'string' || !isSizes(value.shape) || !isSizes(value.data_offsets)) {
      throw new Unreadable(file, `its header has no dtype, shape and offsets for '${name}'`)
    }
    tensors[name] = { dtype: value.dtype, shape: value.shape }
    end = Math.max(end, value.data_offsets[1] ?? 0)
  }
  return { tensors, end }
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && (size as number) >= 0)
}
