/** "Did you mean": the closest of some names. */

/** Edit distance with transpositions (optimal string alignment). */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const at = (i: number, j: number): number => rows[i]?.[j] ?? 0
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const substitution = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row.push(
        Math.min(at(i - 1, j) + 1, (row[j - 1] ?? 0) + 1, substitution, swapped ? at(i - 2, j - 2) + 1 : Infinity),
      )
    }
  }
  return at(a.length, b.length)
}

/** The name that `written` most likely stands for: at most a third of its letters away, and closer than every other; else undefined. */
export function suggest(written: string, names: readonly string[]): string | undefined {
  const lower = written.toLowerCase()
  const ranked = names.map((name) => ({ name, far: distance(lower, name.toLowerCase()) })).sort((a, b) => a.far - b.far)
  const [best, second] = ranked
  if (best === undefined || best.far > Math.max(1, Math.floor(written.length / 3))) return undefined
  return second?.far === best.far ? undefined : best.name
}
