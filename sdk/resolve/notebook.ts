/** Decisions and their reasons, written down while a Plan is made. */
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { toPointer, type PlanPath } from '../plan/notes.ts'
import type { Note, Unknown } from '../plan/plan.ts'

export type Origin = Note['from']

/** A value that the compiler chose, and why. */
export interface Choice<T> {
  readonly value: T
  readonly from: Exclude<Origin, 'declared'>
  readonly reason: string
}

export class Notebook {
  readonly notes: Record<string, Note> = {}
  readonly findings: Finding[] = []

  /** Notes why the value at `place` of the plan is what it is; `path` is where the user said it, or would say it. */
  note(place: PlanPath, path: DeclarationPath, from: Origin, reason: string): void {
    this.notes[toPointer(place)] = { path: [...path], from, reason }
  }

  /** The declared value where there is one, else the compiler's choice; noted either way. */
  choose<T>(place: PlanPath, path: DeclarationPath, declared: T | undefined, otherwise: () => Choice<T>): T {
    if (declared !== undefined) {
      this.note(place, path, 'declared', 'As declared.')
      return declared
    }
    return this.take(place, path, otherwise())
  }

  /** The compiler's choice, noted. */
  take<T>(place: PlanPath, path: DeclarationPath, { value, from, reason }: Choice<T>): T {
    this.note(place, path, from, reason)
    return value
  }
}

export function byDefault<T>(value: T, reason: string): Choice<T> {
  return { value, from: 'default', reason }
}

export function derived<T>(value: T, reason: string): Choice<T> {
  return { value, from: 'derived', reason }
}

export function unknown(because: string): Unknown {
  return { unknown: true, because }
}
