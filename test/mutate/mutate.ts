/** Which mutants are caught before anything is launched. */
import { Draw } from '../fuzz/draw.ts'
import { complaints, type Base } from './bases.ts'
import { mutantsOf, type MutationClass } from './classes.ts'
import type { Mutant } from './change.ts'

export interface Outcome {
  readonly of: MutationClass
  readonly mutant: Mutant
  /** Ids of the errors and warnings that it has. */
  readonly found: readonly string[]
}

/** Judges the mutants of all bases, or `count` of them that the seed chooses. A base that is not clean has none. */
export function mutate(bases: readonly Base[], seed = 0, count = Number.POSITIVE_INFINITY): Outcome[] {
  const all = bases.flatMap(mutantsOf)
  const chosen = count < all.length ? new Draw(seed).some(all, count) : all
  return chosen.map(({ of, mutant }) => ({
    of,
    mutant,
    found: [...new Set(complaints(mutant.declaration, mutant.lock).map(({ id }) => id))],
  }))
}

/** Condemned, and nothing says so. */
export function survivors(outcomes: readonly Outcome[]): Outcome[] {
  return outcomes.filter(({ mutant, found }) => mutant.condemned !== null && found.length === 0)
}

/** A table with a line per class, and the survivors. */
export function told(outcomes: readonly Outcome[]): string {
  const classes = [...new Set(outcomes.map(({ of }) => of))]
  const row = (name: string, of: readonly Outcome[]): string => {
    const condemned = of.filter(({ mutant }) => mutant.condemned !== null)
    const caught = condemned.filter(({ found }) => found.length > 0)
    const ids = [...new Set(caught.flatMap(({ found }) => found))].sort().join(' ')
    return `| ${name} | ${String(of.length)} | ${String(condemned.length)} | ${String(caught.length)} | ${ids} |`
  }
  const left = survivors(outcomes).map(
    ({ of, mutant }) => `${of.name}: ${mutant.base}, ${mutant.what}: ${mutant.condemned ?? ''}`,
  )
  return [
    '| class | mutants | condemned | caught | by |',
    '|---|---:|---:|---:|---|',
    ...classes.map((of) =>
      row(
        `${of.name}: ${of.mistake}`,
        outcomes.filter((outcome) => outcome.of === of),
      ),
    ),
    row('all', outcomes).replace(/[^|]*\|$/, ' |'),
    ...(left.length === 0 ? [] : ['', 'Survivors:', ...left]),
  ].join('\n')
}
