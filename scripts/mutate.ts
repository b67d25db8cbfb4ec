/** `npm run mutate`: the clean pipelines of the repository under single mistakes. Prints a table per class; exits with 1 above 5 % survivors. */
import { complaints, loadBases } from '../test/mutate/bases.ts'
import { mutate, survivors, told } from '../test/mutate/mutate.ts'

const bases = await loadBases()
const clean = bases.filter(({ declaration, lock }) => complaints(declaration, lock).length === 0)
const outcomes = mutate(clean)
const condemned = outcomes.filter(({ mutant }) => mutant.condemned !== null).length
console.log(`${String(clean.length)} of ${String(bases.length)} pipelines are clean`)
console.log(told(outcomes))
process.exitCode = survivors(outcomes).length > 0.05 * condemned ? 1 : 0
