/** What an oracle has to know of a pipeline: read from the declaration and the lock alone, without the compiler. */
import type { DatasetEntry } from '../../sdk/lock/lock.ts'
import { sourceKey } from '../../sdk/lock/source.ts'
import type { LerobotDataset, MixtureEntry } from '../../sdk/declare/data.ts'
import type { Base } from './bases.ts'

export type Path = readonly (string | number)[]

export interface Source {
  /** Where the dataset stands in the declaration. */
  readonly path: Path
  readonly key: string
  readonly dataset: LerobotDataset
  readonly entry: DatasetEntry
  /** Model camera -> feature, and where the map stands. */
  readonly cameras: Readonly<Record<string, string>>
  readonly camerasPath: Path
}

export interface Facts {
  readonly world: number
  readonly sources: readonly Source[]
  readonly frames: number
  /** Frames of the shortest dataset's mean episode. */
  readonly episodeLength: number
  /** Actions of a prediction, where the declaration says it, and where. */
  readonly chunk: { readonly path: Path; readonly value: number } | undefined
  readonly isPolicy: boolean
  /** The names of modules with options. */
  readonly modules: readonly string[]
  readonly peak: number | undefined
}

export function factsOf({ declaration, lock }: Base): Facts {
  const { hardware, model, data, cameras = {}, modules = {}, training } = declaration
  const world = hardware.kind === 'cpus' ? hardware.processes : (hardware.perNode ?? 1) * (hardware.nodes ?? 1)
  const entries: readonly (MixtureEntry | undefined)[] = isMixture(data) ? data : [undefined]
  const sources = entries.flatMap((mixed, index): Source[] => {
    const dataset = mixed?.from ?? (data as LerobotDataset)
    const key = sourceKey({ root: dataset.root, repo: dataset.repo, revision: dataset.revision })
    const entry = lock.datasets[key]
    if (entry === undefined) return []
    const own = mixed?.cameras !== undefined
    return [
      {
        path: mixed === undefined ? ['data'] : ['data', index, 'from'],
        key,
        dataset,
        entry,
        cameras: { ...cameras, ...mixed?.cameras } as Record<string, string>,
        camerasPath: own ? ['data', index, 'cameras'] : ['cameras'],
      },
    ]
  })
  const action = 'action' in model ? model.action : undefined
  const chunk =
    typeof action?.chunk === 'number'
      ? { path: ['model', 'action', 'chunk'], value: action.chunk }
      : 'chunk' in model
        ? { path: ['model', 'chunk'], value: model.chunk }
        : undefined
  const rates = [training.lr, ...Object.values(modules).map(({ lr }) => lr)].filter((lr) => lr !== undefined)
  return {
    world,
    sources,
    frames: sources.reduce((sum, { entry }) => sum + entry.frames, 0),
    episodeLength: Math.min(...sources.map(({ entry }) => entry.frames / entry.episodes)),
    chunk,
    isPolicy: model.kind !== 'composed' && model.kind !== 'openvla',
    modules: Object.keys(modules),
    peak: rates.length === 0 ? undefined : Math.max(...rates),
  }
}

function isMixture(data: Base['declaration']['data']): data is readonly [MixtureEntry, ...MixtureEntry[]] {
  return Array.isArray(data)
}
