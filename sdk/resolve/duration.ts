/** Updates from durations. */
import type { Duration } from '../declare/common.ts'

/** `50_000`, `'75%'` -> updates, rounded to the nearest. */
export function toUpdates(duration: Duration, updates: number): number {
  if (typeof duration === 'number') return duration
  return Math.round((Number.parseFloat(duration) * updates) / 100)
}

/** The working, for a note: `75% of 50,000 updates`. */
export function working(duration: Duration, updates: number): string {
  return typeof duration === 'number' ? 'As declared.' : `${duration} of ${grouped(updates)} updates.`
}

/** `50,000` */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ',')
}
