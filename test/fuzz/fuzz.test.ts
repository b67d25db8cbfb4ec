/** A part of `npm run fuzz`; VLA_TEST_SEED chooses it. */
import { expect, it } from 'vitest'
import { context } from '../emit/context.ts'
import { seedOfRun } from './draw.ts'
import { fuzz, told } from './fuzz.ts'

const seed = seedOfRun()

it(`2,000 random declarations (VLA_TEST_SEED=${String(seed)})`, { timeout: 170_000 }, async () => {
  const report = await fuzz(2_000, seed, context)
  expect(
    report.problems.map(({ kind }) => kind),
    told(report, seed),
  ).toEqual([])
})
