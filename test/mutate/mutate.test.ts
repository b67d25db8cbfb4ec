/** A part of `npm run mutate`; VLA_TEST_SEED chooses it. */
import { expect, it } from 'vitest'
import { seedOfRun } from '../fuzz/draw.ts'
import { complaints, loadBases } from './bases.ts'
import { mutate, told } from './mutate.ts'
import { unexplained } from './survivors.ts'

const seed = seedOfRun()
const bases = await loadBases()

it('every pipeline that is mutated is clean', () => {
  const dirty = bases.filter(({ declaration, lock }) => complaints(declaration, lock).length > 0)
  expect(dirty.map(({ name }) => name)).toEqual([])
  expect(bases.length).toBeGreaterThan(12)
})

it(`300 mutants: what is condemned is caught, or its survival has a reason (VLA_TEST_SEED=${String(seed)})`, () => {
  const outcomes = mutate(bases, seed, 300)
  expect(
    unexplained(outcomes).map(({ of, mutant }) => `${of.name}: ${mutant.base}, ${mutant.what}`),
    told(outcomes),
  ).toEqual([])
})
