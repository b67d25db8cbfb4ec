/** What rules on normalisation ask of the datasets' statistics. */
import type { Pipeline } from '../plan/plan.ts'
import type { RuleContext } from './rule.ts'

/** The two statistics that a mode normalises by. */
export const NEEDED = { meanStd: ['mean', 'std'], minMax: ['min', 'max'], quantiles: ['q01', 'q99'] } as const

export interface Normalised {
  readonly dataset: string
  readonly index: number
  readonly role: 'state' | 'action'
  readonly feature: string
  readonly mode: keyof typeof NEEDED
  /** Statistic -> value per dimension; null is not finite. Undefined where the dataset has none of the feature. */
  readonly statistics: Readonly<Record<string, readonly (number | null)[]>> | undefined
  /** Whether a dimension is normalised at all. */
  readonly uses: (dimension: number) => boolean
}

/** Every vector that is normalised by statistics: of each dataset its state and its action. */
export function normalised<M extends Readonly<Record<string, string>>>(
  { plan, known, each }: Pick<RuleContext<M>, 'plan' | 'known' | 'each'>,
  look: (vector: Normalised) => void,
): void {
  const pairs = plan.datasets.flatMap((dataset, index) =>
    (['state', 'action'] as const).map((role) => ({ dataset, index, role })),
  )
  each(pairs, ({ dataset, index, role }) => {
    const mode: Pipeline['normalize']['state'] = plan.normalize[role]
    const feature = dataset[role]
    if (mode === 'identity' || feature === null) return
    const mask = role === 'action' ? known(plan.normalize.actionMask) : undefined
    const all: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>> = known(
      dataset.statistics,
    )
    look({
      dataset: dataset.name,
      index,
      role,
      feature,
      mode,
      statistics: Object.hasOwn(all, feature) ? all[feature] : undefined,
      uses: (dimension) => mask?.[dimension] ?? true,
    })
  })
}

/** A range (or std) below this share of a dimension's magnitude, at least of 1, is none: `CONSTANT` of the runtime's normaliser. */
const CONSTANT = 1e-6

/**
 * Width of the range of each normalised dimension, where both statistics are there and finite; 0 for one that never changes, negative
 * where they contradict each other.
 */
export function spans({ mode, statistics, uses }: Normalised): { dimension: number; span: number }[] {
  const [first, second] = NEEDED[mode]
  const low = statistics?.[first]
  const high = statistics?.[second]
  if (low === undefined || high === undefined) return []
  return high.flatMap((upper, dimension) => {
    const lower = low[dimension]
    if (upper === null || lower === null || lower === undefined || !uses(dimension)) return []
    const span = mode === 'meanStd' ? upper : upper - lower
    const magnitude = Math.max(1, Math.abs(mode === 'meanStd' ? lower : upper))
    return [{ dimension, span: Math.abs(span) <= CONSTANT * magnitude ? 0 : span }]
  })
}
