/** What a learning-rate schedule does over a run (vla_runtime/optim.py). */
import type { Pipeline } from '../plan/plan.ts'

type Training = Pick<Pipeline['training'], 'schedule' | 'updates'>

/** The mean over the run of the factor on the peak learning rate, 0 to 1. */
export function meanFactor({ schedule, updates }: Training): number {
  const warmup = Math.min(schedule.warmup, updates)
  const after = schedule.kind === 'constant' ? 1 : (1 + schedule.floor) / 2 // half a cosine and a straight line have the same mean
  return (warmup / 2 + after * (updates - warmup)) / updates
}

/** The factor on the peak learning rate at an update. */
export function factorAt({ schedule, updates }: Training, update: number): number {
  if (update < schedule.warmup) return (update + 1) / schedule.warmup
  if (schedule.kind === 'constant') return 1
  const progress = Math.min(1, (update - schedule.warmup) / Math.max(1, updates - schedule.warmup))
  const share = schedule.kind === 'cosine' ? (1 + Math.cos(Math.PI * progress)) / 2 : 1 - progress
  return schedule.floor + (1 - schedule.floor) * share
}
