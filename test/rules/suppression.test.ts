/** What fails for certain or in silence cannot be switched off, whatever the rule. */
import { describe, expect, it } from 'vitest'
import { entries, rules } from '../../sdk/rules/index.ts'
import { runRules } from '../../sdk/rules/run.ts'
import { judgeExample } from './chain.ts'

/** Errors that may be switched off, since what they compare with is an estimate or a fact that a machine may not share. */
const UNCERTAIN: Readonly<Record<string, string>> = {
  VLA606: 'the peak of host memory while packing is an estimate',
  VLA819: 'how many GPUs a node has is what vendors sell, and a machine may be built otherwise',
}

describe('errors', () => {
  it('cannot be switched off: the run fails, or is silently wrong', () => {
    const open = entries
      .filter(({ severity, suppress }) => severity === 'error' && suppress.allowed)
      .map(({ id }) => id)
    expect(open.filter((id) => !Object.hasOwn(UNCERTAIN, id))).toEqual([])
  })
  it('of reading declaration and lock cannot either', () => {
    const reading = entries.filter(({ area, severity }) => area === 'declaration' && severity === 'error')
    expect(reading.length).toBeGreaterThan(5)
    expect(reading.filter(({ suppress }) => suppress.allowed)).toEqual([])
  })
})

describe('switching off', () => {
  const judged = rules
    .filter(({ area }) => area !== 'reporting')
    .flatMap((rule) => rule.invalid.slice(0, 1).map((example) => ({ rule, ...judgeExample(example) })))
    .flatMap(({ rule, plan }) => (plan === undefined ? [] : [{ id: rule.id, allowed: rule.suppress.allowed, plan }]))

  it('is tried on nearly every rule', () => {
    expect(judged.length).toBeGreaterThan(rules.length - 10)
  })
  it.each(judged.filter(({ allowed }) => allowed))('$id: silent, and not called unused', ({ id, plan }) => {
    const ids = runRules(plan, { suppressions: [{ rule: id, reason: 'measured' }] }).map((finding) => finding.id)
    expect(ids).not.toContain(id)
    expect(ids).not.toContain('VLA090')
    expect(ids).not.toContain('VLA091')
  })
  it.each(judged.filter(({ allowed }) => !allowed))('$id: refused, and the finding stays', ({ id, plan }) => {
    const ids = runRules(plan, { suppressions: [{ rule: id, reason: 'measured' }] }).map((finding) => finding.id)
    expect(ids).toContain(id)
    expect(ids).toContain('VLA091')
  })
})
