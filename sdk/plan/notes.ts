/** From a value of the Plan to the reason it has and to the place in the declaration that it came from. */
import type { DeclarationPath } from '../finding/finding.ts'
import type { Note, Plan } from './plan.ts'

/** A place in `plan.pipeline`: `['modules', 0, 'lr']`. */
export type PlanPath = readonly (string | number)[]

/** The JSON pointer (RFC 6901) of a place: `/modules/0/lr`. */
export function toPointer(path: PlanPath): string {
  return path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** The steps of a JSON pointer. Array indices come back as numbers where they look like one. */
export function fromPointer(pointer: string): (string | number)[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((step) => (/^(0|[1-9]\d*)$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')))
}

/** The note of a value: its own, or that of the nearest node around it (a whole dataset's statistics have one note). */
export function noteAt(plan: Pick<Plan, 'notes'>, place: PlanPath | string): Note | undefined {
  let pointer = typeof place === 'string' ? place : toPointer(place)
  for (;;) {
    const note = plan.notes[pointer]
    if (note !== undefined || pointer === '') return note
    pointer = pointer.slice(0, pointer.lastIndexOf('/'))
  }
}

/** Where the user said a value, or would say it. Without a note: the top of the declaration. */
export function declarationPath(plan: Pick<Plan, 'notes'>, place: PlanPath | string): DeclarationPath {
  return noteAt(plan, place)?.path ?? []
}

/** The value at a place of the pipeline; undefined where there is nothing. */
export function valueAt(pipeline: unknown, place: PlanPath | string): unknown {
  let value: unknown = pipeline
  for (const step of typeof place === 'string' ? fromPointer(place) : place) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<string | number, unknown>)[step]
  }
  return value
}
