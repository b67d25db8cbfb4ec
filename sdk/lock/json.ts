/** Reading JSON that Python wrote. */
import { readFileSync } from 'node:fs'
import { sha256 } from '../plan/canonical.ts'

/** A file of a dataset or a weights directory cannot be read; the message says what is wrong with it. */
export class Unreadable extends Error {
  /** The file, relative to the folder it belongs to. */
  readonly file: string

  constructor(file: string, what: string) {
    super(what)
    this.name = 'Unreadable'
    this.file = file
  }
}

/**
 * Parses JSON as Python's `json` writes it: `NaN` and the infinities, which JSON does not have, become null.
 *
 * @throws {SyntaxError} where it is not JSON even so.
 */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const literal = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g
    const mended = text.replace(literal, (match) => (match.startsWith('"') ? match : 'null'))
    if (mended === text) throw error
    return JSON.parse(mended) as unknown
  }
}

/**
 * The object in a JSON file, and the sha256 of the file's bytes.
 *
 * @throws {Unreadable} when the file is missing, cut off, or holds something else than an object.
 */
export function readJsonObject(path: string, file: string): { value: Record<string, unknown>; hash: string } {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch (error) {
    throw new Unreadable(file, readingFailed(error))
  }
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = parsePythonJson(text)
  } catch {
    throw new Unreadable(
      file,
      text.trim() === '' ? 'the file is empty' : 'it is not valid JSON; it may have been cut off',
    )
  }
  if (!isRecord(value)) throw new Unreadable(file, 'it does not hold a JSON object')
  return { value, hash: sha256(bytes) }
}

/** What a failed file system call means, without the absolute path that Node's message carries. */
export function readingFailed(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
  const meanings: Record<string, string> = {
    ENOENT: 'the file is missing',
    EACCES: 'reading it is not permitted',
    EISDIR: 'it is a folder, not a file',
    ENOTDIR: 'it is a file, not a folder',
  }
  return meanings[code] ?? `it cannot be read (${code})`
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
