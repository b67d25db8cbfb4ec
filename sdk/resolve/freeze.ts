/** Freeze schedules as phases. */
import type { Freeze, Trains } from '../declare/freeze.ts'
import type { PlanModule } from '../plan/plan.ts'
import { grouped, toUpdates } from './duration.ts'

type Phase = PlanModule['freeze'][number]

/** The phases of a schedule. The first starts at 0, unless a declared list starts later. */
export function phases(freeze: Freeze | undefined, updates: number): Phase[] {
  if (freeze === undefined || freeze === 'never') return [{ from: 0, trains: 'all', rewarm: 0 }]
  if (freeze === 'always') return [{ from: 0, trains: 'none', rewarm: 0 }]
  if ('kind' in freeze) {
    const from = toUpdates(freeze.when, updates)
    const then: Phase = {
      from,
      trains: trains(freeze.thenTrain ?? 'all'),
      rewarm: toUpdates(freeze.rewarm ?? 0, updates),
    }
    return from === 0 ? [then] : [{ from: 0, trains: 'none', rewarm: 0 }, then]
  }
  return freeze.map(({ from, train, rewarm }) => ({
    from: toUpdates(from, updates),
    trains: trains(train),
    rewarm: toUpdates(rewarm ?? 0, updates),
  }))
}

/** Whether anything of a module trains in some update of the run. */
export function everTrains(schedule: readonly Phase[], updates: number): boolean {
  return schedule.some(
    ({ from, trains: what }, index) =>
      what !== 'none' && from < updates && (schedule[index + 1]?.from ?? updates) > from,
  )
}

/** The schedule in words: `75% of 50,000 updates: frozen before update 37,500, then the last 6 blocks train.` */
export function schedulePhrase(freeze: Freeze, schedule: readonly Phase[], updates: number): string {
  if (freeze === 'never') return 'As declared: trains from the first update on.'
  if (freeze === 'always') return 'As declared: never trains.'
  const shares = ('kind' in freeze ? [freeze.when] : freeze.map(({ from }) => from)).filter(
    (when) => typeof when === 'string',
  )
  const of = shares.length === 0 ? '' : `${shares.join(' and ')} of ${grouped(updates)} updates: `
  const words = schedule.map(({ from, trains: what }, index) => {
    const does =
      what === 'all'
        ? 'everything trains'
        : what === 'none'
          ? 'frozen'
          : `the last ${String(what.lastLayers)} blocks train`
    return index === 0 ? does : `from update ${grouped(from)} on ${does}`
  })
  return `${of}${words.join(', ')}.`
}

function trains(what: Trains): Phase['trains'] {
  return typeof what === 'string' ? what : { lastLayers: what.count }
}
