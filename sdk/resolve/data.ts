/** Datasets of the Plan, from the declaration and the lock. */
import type { Declaration } from '../declare/pipeline.ts'
import type { LerobotDataset, MixtureEntry } from '../declare/data.ts'
import type { DeclarationPath } from '../finding/finding.ts'
import { lockFinding } from '../lock/findings.ts'
import type { DatasetEntry, Lock } from '../lock/lock.ts'
import { sourceKey } from '../lock/source.ts'
import { isKnown, type PlanDataset } from '../plan/plan.ts'
import { grouped } from './duration.ts'
import { byDefault, derived, unknown, type Choice, type Notebook } from './notebook.ts'

/** Resolves every dataset. `usesState`: whether the model reads proprioception. */
export function resolveDatasets(
  declaration: Declaration,
  lock: Lock | undefined,
  cameras: readonly string[],
  usesState: boolean,
  book: Notebook,
): PlanDataset[] {
  const { data } = declaration
  const single = 'kind' in data
  const entries: readonly MixtureEntry[] = single ? [{ from: data, weight: 1 }] : data
  const names = new Set(entries.flatMap(({ from }) => (from.name === undefined ? [] : [from.name])))
  return entries.map((entry, index) => {
    const path: DeclarationPath = single ? ['data'] : ['data', index, 'from']
    const entryPath: DeclarationPath = single ? ['data'] : ['data', index]
    if (single) book.note(['datasets', index, 'weight'], path, 'default', 'The only dataset.')
    else book.note(['datasets', index, 'weight'], [...entryPath, 'weight'], 'declared', 'As declared.')
    return new DatasetResolver(declaration, entry, index, path, entryPath, lock, book).resolve(
      cameras,
      usesState,
      names,
    )
  })
}

class DatasetResolver {
  readonly #declaration: Declaration
  readonly #entry: MixtureEntry
  readonly #dataset: LerobotDataset
  readonly #index: number
  readonly #path: DeclarationPath
  readonly #entryPath: DeclarationPath
  readonly #locked: DatasetEntry | undefined
  readonly #book: Notebook
  readonly #because: string

  constructor(
    declaration: Declaration,
    entry: MixtureEntry,
    index: number,
    path: DeclarationPath,
    entryPath: DeclarationPath,
    lock: Lock | undefined,
    book: Notebook,
  ) {
    this.#declaration = declaration
    this.#entry = entry
    this.#dataset = entry.from
    this.#index = index
    this.#path = path
    this.#entryPath = entryPath
    this.#book = book
    const key = sourceKey(entry.from)
    this.#locked = lock !== undefined && Object.hasOwn(lock.datasets, key) ? lock.datasets[key] : undefined
    this.#because = `VLA020: vla.lock.json has no entry for dataset '${key}'`
  }

  resolve(cameras: readonly string[], usesState: boolean, taken: Set<string>): PlanDataset {
    const dataset = this.#dataset
    const name = this.#name(taken)
    const state = this.#state(usesState)
    const action = this.#choose('action', dataset.action, () => byDefault('action', "LeRobot's name for actions."))
    const selected = this.#choose('selected', dataset.episodes, () => byDefault(null, 'All episodes.'), 'episodes')
    for (const [field, value] of [
      ['repo', dataset.repo],
      ['root', dataset.root],
      ['revision', dataset.revision],
    ] as const) {
      if (value === undefined) this.#take(field, byDefault(null, 'Not declared.'))
      else this.#note(field, field, 'declared', 'As declared.')
    }
    return {
      name,
      repo: dataset.repo ?? null,
      root: dataset.root ?? null,
      revision: dataset.revision ?? null,
      weight: this.#entry.weight,
      cameras: this.#cameras(cameras),
      state,
      action,
      selected: selected === null ? null : [...selected],
      holdout: this.#holdout(selected),
      fps: this.#fromLock('fps', (locked) => locked.fps),
      episodes: this.#fromLock('episodes', (locked) => locked.episodes),
      frames: this.#fromLock('frames', (locked) => locked.frames),
      stateDim:
        state === null
          ? this.#take('stateDim', derived(0, 'The model reads no proprioception.'))
          : this.#width('stateDim', state, 'state'),
      actionDim: this.#width('actionDim', action, 'action'),
      cameraSizes: this.#fromLock('cameraSizes', cameraSizes),
      video: this.#fromLock('video', (locked) => Object.values(locked.features).some(({ dtype }) => dtype === 'video')),
      clock: this.#fromLock('clock', clock),
      statistics: this.#statistics(state === null ? [action] : [state, action]),
      fingerprint: this.#fromLock('fingerprint', (locked) => locked.fingerprint),
    }
  }

  #name(taken: Set<string>): string {
    const { name, repo, root } = this.#dataset
    return this.#choose('name', name, () => {
      const base =
        (repo ?? root ?? 'dataset')
          .split(/[\\/]/)
          .filter((part) => part !== '' && part !== '.')
          .at(-1) ?? 'dataset'
      let free = base
      for (let count = 2; taken.has(free); count++) free = `${base}-${String(count)}`
      taken.add(free)
      const source = repo !== undefined ? 'repo' : 'root'
      return byDefault(
        free,
        free === base ? `The last part of \`${source}\`.` : `The last part of \`${source}\`, made unique.`,
      )
    })
  }

  #state(usesState: boolean): string | null {
    const declared = this.#dataset.state
    if (usesState)
      return this.#choose('state', declared, () => byDefault('observation.state', "LeRobot's name for proprioception."))
    return this.#take('state', derived(null, 'The model reads no proprioception.'))
  }

  /** Declared cameras win; what is left gets a feature where there is only one that can be meant. */
  #cameras(cameras: readonly string[]): Record<string, string> {
    const own = this.#entry.cameras ?? {}
    const shared = this.#declaration.cameras ?? {}
    const map: Record<string, string> = {}
    const features = Object.entries(this.#locked?.features ?? {}).flatMap(([feature, { dtype }]) =>
      isCamera(dtype) ? [feature] : [],
    )
    for (const camera of cameras) {
      const place = ['datasets', this.#index, 'cameras', camera]
      const [ownFeature, sharedFeature] = [own, shared].map((of) =>
        Object.hasOwn(of, camera) ? of[camera] : undefined,
      )
      if (ownFeature !== undefined) {
        map[camera] = ownFeature
        this.#book.note(place, [...this.#entryPath, 'cameras', camera], 'declared', 'As declared for this dataset.')
      } else if (sharedFeature !== undefined) {
        map[camera] = sharedFeature
        this.#book.note(place, ['cameras', camera], 'declared', 'As declared for all datasets.')
      } else {
        const choice = obviousFeature(camera, cameras, features)
        if (choice === undefined) continue
        map[camera] = choice.value
        this.#book.note(place, ['cameras', camera], choice.from, choice.reason)
      }
    }
    this.#book.note(
      ['datasets', this.#index, 'cameras'],
      Object.keys(own).length > 0 ? [...this.#entryPath, 'cameras'] : ['cameras'],
      'derived',
      'Camera by camera.',
    )
    return map
  }

  #holdout(selected: readonly number[] | null): PlanDataset['holdout'] {
    const { holdout } = this.#dataset
    if (holdout === undefined) return this.#take('holdout', byDefault([], 'No episodes are held out.'))
    if (typeof holdout !== 'string') {
      this.#note('holdout', 'holdout', 'declared', 'As declared.')
      return [...holdout]
    }
    const count = selected?.length ?? this.#locked?.episodes
    if (count === undefined) return this.#unknown('holdout')
    const held =
      Number.parseFloat(holdout) === 0 ? 0 : Math.max(1, Math.round((Number.parseFloat(holdout) * count) / 100))
    const all = selected ?? Array.from({ length: count }, (_, episode) => episode)
    return this.#take(
      'holdout',
      derived(
        all.slice(count - Math.min(held, count)),
        `${holdout} of ${grouped(count)} episodes: the last ${grouped(held)}.`,
      ),
    )
  }

  /** Width of a vector feature; a finding where the dataset has no such vector. */
  #width(field: 'stateDim' | 'actionDim', feature: string, option: 'state' | 'action'): PlanDataset['stateDim'] {
    if (this.#locked === undefined) return this.#unknown(field)
    const found = Object.hasOwn(this.#locked.features, feature) ? this.#locked.features[feature] : undefined
    const [width] = found?.shape ?? []
    if (found?.shape.length === 1 && width !== undefined && width > 0 && /^(float|int|uint|bool)/.test(found.dtype)) {
      return this.#take(field, { value: width, from: 'lock', reason: `Width of '${feature}' in the dataset.` })
    }
    // Actions are no proprioception: a policy that reads them has seen the answer.
    const taken = ['timestamp', ...(option === 'state' ? [this.#dataset.action ?? 'action'] : [])]
    const vectors = Object.entries(this.#locked.features).flatMap(([name, { dtype, shape }]) =>
      shape.length === 1 && /^float/.test(dtype) && !taken.includes(name) ? [name] : [],
    )
    const what =
      found === undefined
        ? 'is not in the dataset'
        : `is no vector of numbers (${found.dtype} [${found.shape.join(', ')}])`
    const choices =
      vectors.length === 0
        ? option === 'state'
          ? 'It has no vector feature beside the actions: `state: false` in a model that does without, or other data.'
          : 'It has no vector features.'
        : `Use one of ${vectors.map((name) => `'${name}'`).join(', ')}: \`${option}\` of lerobotDataset.`
    this.#book.findings.push(lockFinding('VLA025', [...this.#path, option], `Feature '${feature}' ${what}.`, choices))
    this.#note(field, option, 'derived', `Feature '${feature}' ${what}.`)
    return unknown('VLA025')
  }

  #statistics(features: readonly string[]): PlanDataset['statistics'] {
    if (this.#locked === undefined) return this.#unknown('statistics')
    const { statistics } = this.#locked
    const found = features.flatMap((feature) => {
      const own = Object.hasOwn(statistics, feature) ? statistics[feature] : undefined
      return own === undefined ? [] : [[feature, own] as const]
    })
    return this.#take('statistics', {
      value: Object.fromEntries(found),
      from: 'lock',
      reason: "The dataset's meta/stats.json.",
    })
  }

  #fromLock<T>(field: string, read: (locked: DatasetEntry) => T): T | ReturnType<typeof unknown> {
    if (this.#locked === undefined) return this.#unknown(field)
    return this.#take(field, { value: read(this.#locked), from: 'lock', reason: "The dataset's meta/info.json." })
  }

  #unknown(field: string): ReturnType<typeof unknown> {
    const option = this.#dataset.root === undefined ? 'repo' : 'root'
    this.#note(field, option, 'lock', 'Not known: run `vla lock` where the dataset is at hand.')
    return unknown(this.#because)
  }

  #choose<T>(field: string, declared: T | undefined, otherwise: () => Choice<T>, option = field): T {
    return this.#book.choose<T>(['datasets', this.#index, field], [...this.#path, option], declared, otherwise)
  }

  #take<T>(field: string, choice: Choice<T>): T {
    return this.#book.take(['datasets', this.#index, field], [...this.#path, optionOf(field)], choice)
  }

  #note(field: string, option: string, from: 'declared' | 'derived' | 'lock', reason: string): void {
    this.#book.note(['datasets', this.#index, field], [...this.#path, option], from, reason)
  }
}

/** The option of lerobotDataset that a field of the plan follows from. */
function optionOf(field: string): string {
  const options: Record<string, string> = {
    stateDim: 'state',
    actionDim: 'action',
    selected: 'episodes',
    clock: 'root',
    statistics: 'root',
    fps: 'root',
  }
  return (
    options[field] ??
    (['repo', 'root', 'revision', 'name', 'state', 'action', 'holdout'].includes(field) ? field : 'root')
  )
}

function isCamera(dtype: string): boolean {
  return dtype === 'image' || dtype === 'video'
}

/** `front` -> `observation.images.front`, or the only camera there is. */
function obviousFeature(
  camera: string,
  cameras: readonly string[],
  features: readonly string[],
): Choice<string> | undefined {
  const named = features.filter((feature) => feature === camera || feature.endsWith(`.${camera}`))
  const [match] = named
  if (match !== undefined && named.length === 1)
    return { value: match, from: 'lock', reason: "The dataset's only camera of that name." }
  const [only] = features
  if (only !== undefined && features.length === 1 && cameras.length === 1) {
    return { value: only, from: 'lock', reason: 'The model has one camera and the dataset has one.' }
  }
  return undefined
}

/** The longest episode by its last timestamp and by its last frame, where the statistics of the dataset say both. */
function clock({ statistics }: DatasetEntry): { timestampMax: number; frameIndexMax: number } | null {
  const [timestampMax, frameIndexMax] = ['timestamp', 'frame_index'].map((column) =>
    Object.hasOwn(statistics, column) ? statistics[column]?.['max']?.[0] : undefined,
  )
  return typeof timestampMax === 'number' && typeof frameIndexMax === 'number' ? { timestampMax, frameIndexMax } : null
}

/** Height and width of every camera, whichever order the dataset stores them in. */
function cameraSizes({ features }: DatasetEntry): Record<string, [number, number]> {
  const sizes: Record<string, [number, number]> = {}
  for (const [name, { dtype, shape, names }] of Object.entries(features)) {
    if (!isCamera(dtype) || shape.length !== 3) continue
    const [first = 0, second = 0, third = 0] = shape
    const channelsFirst = names === null ? first <= 4 && third > 4 : /^channels?$/.test(names[0] ?? '')
    const [height, width] = channelsFirst ? [second, third] : [first, second]
    if (height > 0 && width > 0) sizes[name] = [height, width]
  }
  return sizes
}

/** The width that all datasets agree on or, where they do not, that of the first that is known; rules compare them. */
export function commonWidth(
  datasets: readonly PlanDataset[],
  field: 'stateDim' | 'actionDim',
): PlanDataset['stateDim'] {
  const widths = datasets.map((dataset) => dataset[field])
  return widths.find((width) => isKnown(width)) ?? widths[0] ?? unknown('VLA020')
}
