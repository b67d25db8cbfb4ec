/** `npm run fuzz [-- CASES]`: random declarations (100,000) through the whole chain; VLA_TEST_SEED chooses them. Exits with 1 for a problem. */
import { context } from '../test/emit/context.ts'
import { seedOfRun } from '../test/fuzz/draw.ts'
import { fuzz, told } from '../test/fuzz/fuzz.ts'

const seed = seedOfRun()
const report = await fuzz(Number(process.argv[2] ?? 100_000), seed, context)
console.log(told(report, seed))
process.exitCode = report.problems.length > 0 ? 1 : 0
