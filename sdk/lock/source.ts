/** How a dataset or a weights directory is named in the lock. */
import { basename, isAbsolute, normalize } from 'node:path'
import { sha256 } from '../plan/canonical.ts'

/** What the declaration says about where something lies. */
export interface Source {
  /** A folder (or file), relative to pipeline.ts or absolute. */
  readonly root?: string | undefined
  /** A hub id. */
  readonly repo?: string | undefined
  readonly revision?: string | undefined
}

/**
 * The key of a source in the lock: the folder as declared (`data/metaworld`), or `repo@revision`. The same on every machine, and
 * free of absolute paths: `/data/arm` becomes `absolute:arm-<hash>`.
 */
export function sourceKey(source: Source): string {
  const { root, repo, revision } = source
  if (root !== undefined) {
    if (isAbsolute(root) || /^([A-Za-z]:)?[\\/]|^~/.test(root)) {
      return `absolute:${basename(root)}-${sha256(normalize(root)).slice(0, 12)}`
    }
    const clean = normalize(root)
      .replaceAll('\\', '/')
      .replace(/(?<=.)\/+$/, '')
    return clean
  }
  return `${repo ?? ''}@${revision ?? 'main'}`
}

/** Whether a weights source can only be a folder or file, never a hub id (`org/name`). */
export function isLocalPath(source: string): boolean {
  return !/^[A-Za-z0-9][\w.-]*(\/[A-Za-z0-9][\w.-]*)?$/.test(source) || /\.(safetensors|bin|pt|pth)$/.test(source)
}
