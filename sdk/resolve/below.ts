/** Choices below one node of the Plan. */
import type { Duration } from '../declare/common.ts'
import type { DeclarationPath } from '../finding/finding.ts'
import type { PlanPath } from '../plan/notes.ts'
import { toUpdates, working } from './duration.ts'
import type { Choice, Notebook } from './notebook.ts'

interface At {
  declared(field: string): void
  take<T>(field: string, choice: Choice<T>): T
  choose<T>(field: string, declared: T | undefined, otherwise: () => Choice<T>, option?: string): T
  updates(field: string, declared: Duration | undefined, updates: number, otherwise: () => Choice<number>): number
}

/** Choices below one node of the plan, whose options have the same names in the declaration. */
export function below(book: Notebook, place: PlanPath, path: DeclarationPath): At {
  return {
    declared(field) {
      book.note([...place, field], [...path, field], 'declared', 'As declared.')
    },
    take: (field, choice) => book.take([...place, field], [...path, field], choice),
    choose: (field, declared, otherwise, option = field) =>
      book.choose([...place, field], [...path, option], declared, otherwise),
    updates(field, declared, updates, otherwise) {
      if (declared === undefined) return book.take([...place, field], [...path, field], otherwise())
      book.note(
        [...place, field],
        [...path, field],
        typeof declared === 'number' ? 'declared' : 'derived',
        working(declared, updates),
      )
      return toUpdates(declared, updates)
    },
  }
}
