/**
 * How many rows a Parquet file has, from the beginning of its footer.
 *
 * LeRobot writes a row group per episode, so that the footers of a large dataset have tens of megabytes; libraries read all of it. The
 * count stands in front: FileMetaData is version, schema, num_rows, row groups, in Thrift's compact protocol.
 * Source: parquet.thrift of apache/parquet-format, and thrift-compact-protocol.md of apache/thrift.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { readingFailed, Unreadable } from './json.ts'

const MAGIC = 'PAR1'
const ROWS = 3
/** A schema of some hundred columns. */
const BEGINNING = 2 ** 16
const MOST_DEPTH = 32

/**
 * Rows of a Parquet file.
 *
 * @param path - where it lies
 * @param file - what messages call it
 * @throws {Unreadable} where it does not begin and end as a Parquet file does, or its footer cannot be read
 */
export function parquetRows(path: string, file: string): number {
  let descriptor: number
  try {
    descriptor = openSync(path, 'r')
  } catch (error) {
    throw new Unreadable(file, readingFailed(error))
  }
  try {
    const { size } = fstatSync(descriptor)
    const piece = (length: number, from: number): Buffer => {
      const bytes = Buffer.alloc(length)
      if (readSync(descriptor, bytes, 0, length, from) !== length)
        throw new Unreadable(file, `it is cut off (${String(size)} bytes)`)
      return bytes
    }
    // magic, pages, metadata, the length of these in four bytes, magic
    if (size < 12) throw new Unreadable(file, `it is cut off (${String(size)} bytes)`)
    if (piece(4, 0).toString('latin1') !== MAGIC) throw new Unreadable(file, 'it is not a Parquet file')
    const end = piece(8, size - 8)
    if (end.toString('latin1', 4) !== MAGIC)
      throw new Unreadable(
        file,
        'its Parquet footer is missing: the recording was not finalised, or the file was cut off',
      )
    const length = end.readUInt32LE(0)
    const damaged = new Unreadable(file, 'its Parquet footer cannot be read: the file was changed or damaged')
    if (length > size - 12) throw damaged
    for (const bytes of new Set([Math.min(length, BEGINNING), length])) {
      const rows = new Compact(piece(bytes, size - 8 - length)).field(ROWS)
      if (rows !== undefined) return rows
    }
    throw damaged
  } finally {
    closeSync(descriptor)
  }
}

/** Types of Thrift's compact protocol. */
const TYPE = {
  true: 1,
  false: 2,
  byte: 3,
  i16: 4,
  i32: 5,
  i64: 6,
  double: 7,
  binary: 8,
  list: 9,
  set: 10,
  map: 11,
  struct: 12,
}

/** Bytes in Thrift's compact protocol; whatever reads beyond them gives NaN. */
class Compact {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /** A whole number in a field of the struct that begins here; undefined where it is none, or beyond the bytes. */
  field(wanted: number): number | undefined {
    for (let id = 0; ;) {
      const head = this.#byte()
      const type = head & 15
      // A field's id as a difference to the last one, or whole behind the head.
      id = head >> 4 === 0 ? zigzag(this.#varint()) : id + (head >> 4)
      if (type === 0 || !(this.#at <= this.#bytes.length) || id > wanted) return undefined
      if (id < wanted) this.#skip(type, false, 0)
      else if (type !== TYPE.i64) return undefined
      else {
        const value = zigzag(this.#varint())
        return this.#at <= this.#bytes.length && Number.isSafeInteger(value) && value >= 0 ? value : undefined
      }
    }
  }

  /**
   * @param isItem - of a list: there a boolean has a byte of its own
   * @param depth - of structs and lists around it; a schema has a few
   */
  #skip(type: number, isItem: boolean, depth: number): void {
    switch (depth > MOST_DEPTH ? undefined : type) {
      case TYPE.true:
      case TYPE.false:
        if (isItem) this.#at += 1
        return
      case TYPE.byte:
        this.#at += 1
        return
      case TYPE.i16:
      case TYPE.i32:
      case TYPE.i64:
        this.#varint()
        return
      case TYPE.double:
        this.#at += 8
        return
      case TYPE.binary:
        // Not `+=`, which would take the place before the length was read.
        this.#at = this.#varint() + this.#at
        return
      case TYPE.list:
      case TYPE.set: {
        const head = this.#byte()
        const size = head >> 4 === 15 ? this.#varint() : head >> 4
        for (let left = size; left > 0 && this.#at < this.#bytes.length; left--) this.#skip(head & 15, true, depth + 1)
        return
      }
      case TYPE.struct:
        for (let head = this.#byte(); (head & 15) !== 0; head = this.#byte()) {
          if (head >> 4 === 0) this.#varint()
          this.#skip(head & 15, false, depth + 1)
        }
        return
      default: // a map, which nothing before the rows is, or no type at all
        this.#at = Number.POSITIVE_INFINITY
    }
  }

  /** 0, which ends a struct, beyond the bytes. */
  #byte(): number {
    return this.#bytes[this.#at++] ?? 0
  }

  #varint(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#byte()
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
}

/** 0, 1, 2, 3, ... stand for 0, -1, 1, -2, ... */
function zigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}
