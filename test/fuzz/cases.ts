/** The cases of a run, and smaller ones with the same problem. */
import { drawDeclaration } from './declarations.ts'
import { Draw } from './draw.ts'
import { judgeProblems, type Case } from './judge.ts'
import { drawLock } from './locks.ts'
import { copyOf, disturb, spots } from './wild.ts'

/** One case, the same for the same seed and number. */
export function drawCase(seed: number, index: number): { given: Case; d: Draw } {
  const d = new Draw((seed + Math.imul(index, 0x9e3779b1)) >>> 0)
  const declaration = drawDeclaration(d)
  for (let left = d.pick([0, 1, 1, 2, 3, 6]); left > 0; left--) disturb(declaration, d)
  return { given: { declaration, lock: drawLock(declaration, d) }, d }
}

/** A smaller declaration with the same problem: whatever can go is taken out. */
export function shrink(given: Case, kind: string): Case {
  let smallest = given
  for (let round = 0; round < 3; round++) {
    for (let index = spots(smallest.declaration).length - 1; index >= 0; index--) {
      const declaration = copyOf(smallest.declaration)
      const spot = spots(declaration)[index]
      if (spot === undefined) continue
      if (Array.isArray(spot.owner)) spot.owner.splice(Number(spot.key), 1)
      else Reflect.deleteProperty(spot.owner, spot.key)
      const candidate = { ...smallest, declaration }
      if (hasProblem(candidate, kind)) smallest = candidate
    }
  }
  return hasProblem({ ...smallest, lock: undefined }, kind) ? { ...smallest, lock: undefined } : smallest
}

function hasProblem(given: Case, kind: string): boolean {
  try {
    return judgeProblems(given).includes(kind)
  } catch (error) {
    return error instanceof Error && kind.endsWith(error.message.split('\n')[0]?.slice(0, 120) ?? '')
  }
}
