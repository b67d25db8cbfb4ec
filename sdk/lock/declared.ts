/** Which datasets and weights a declaration names. Works on a declaration that is only partly well-formed. */
import type { DeclarationPath } from '../finding/finding.ts'
import { isRecord } from './json.ts'
import { isLocalPath, sourceKey } from './source.ts'

export interface DeclaredDataset {
  readonly key: string
  readonly path: DeclarationPath
  readonly root: string | undefined
  readonly repo: string | undefined
  readonly revision: string | undefined
}

export interface DeclaredWeights {
  readonly key: string
  /** Of the value that names the directory, file or hub id. */
  readonly path: DeclarationPath
  readonly source: string
  readonly revision: string | undefined
}

/** The datasets, in the order of the declaration; those that name neither a folder nor a repository are left out. */
export function declaredDatasets(declaration: unknown): DeclaredDataset[] {
  const data = isRecord(declaration) ? declaration.data : undefined
  const all: [unknown, DeclarationPath][] = Array.isArray(data)
    ? data.map((entry: unknown, index) => [isRecord(entry) ? entry.from : undefined, ['data', index, 'from']])
    : [[data, ['data']]]
  return all.flatMap(([dataset, path]) => {
    if (!isRecord(dataset)) return []
    const [root, repo, revision] = [text(dataset.root), text(dataset.repo), text(dataset.revision)]
    return root === undefined && repo === undefined
      ? []
      : [{ key: sourceKey({ root, repo, revision }), path, root, repo, revision }]
  })
}

/** Every directory, file or hub id that weights or configs come from, in the order of the declaration. */
export function declaredWeights(declaration: unknown): DeclaredWeights[] {
  const model = isRecord(declaration) ? declaration.model : undefined
  if (!isRecord(model)) return []
  const found: DeclaredWeights[] = []
  const add = (source: unknown, revision: unknown, path: DeclarationPath): void => {
    const named = text(source)
    if (named !== undefined)
      found.push({ key: weightsKey(named, text(revision)), path, source: named, revision: text(revision) })
  }
  add(model.weights, model.revision, ['model', 'weights'])
  const vision = model.vision
  const towers: [unknown, DeclarationPath][] =
    isRecord(vision) && Array.isArray(vision.towers)
      ? vision.towers.map((tower: unknown, index) => [tower, ['model', 'vision', 'towers', index]])
      : [[vision, ['model', 'vision']]]
  for (const [tower, path] of towers) {
    if (!isRecord(tower)) continue
    add(tower.weights, undefined, [...path, 'weights'])
    add(tower.source, tower.revision, [...path, 'source'])
  }
  if (isRecord(model.language)) add(model.language.source, model.language.revision, ['model', 'language', 'source'])
  return found
}

/** The key of a weights source in the lock. */
export function weightsKey(source: string, revision: string | undefined): string {
  return isLocalPath(source) ? sourceKey({ root: source }) : sourceKey({ repo: source, revision })
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
