/** Which files, besides pipeline.ts and what it imports, decide what is known of the outside world. */
import { join, resolve } from 'node:path'
import { declaredDatasets, declaredWeights } from './declared.ts'
import { lockFileName } from './make.ts'
import { isLocalPath } from './source.ts'

/** Absolute paths of the lock, and of the descriptions of local datasets and weights; those that are not there too. */
export function lockedFiles(declaration: unknown, pipelineDir: string): string[] {
  const datasets = declaredDatasets(declaration).flatMap(({ root }) =>
    root === undefined ? [] : ['meta/info.json', 'meta/stats.json'].map((name) => resolve(pipelineDir, root, name)),
  )
  const weights = declaredWeights(declaration)
    .filter(({ source }) => isLocalPath(source))
    .map(({ source }) => resolve(pipelineDir, source, 'config.json'))
  return [...new Set([join(pipelineDir, lockFileName), ...datasets, ...weights])]
}
