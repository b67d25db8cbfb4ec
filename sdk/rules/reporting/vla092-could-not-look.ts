import { defineRule } from '../rule.ts'

/** Reported by the runner, which knows which rules read something unknown. */
export const couldNotLook = defineRule({
  id: 'VLA092',
  name: 'could-not-look',
  area: 'reporting',
  severity: 'info',
  since: '0.1.0',
  summary: 'Rules that need a value that the lock does not know say so instead of being silent.',
  why: 'No finding means nothing where nobody could look. The generated preflight looks on the target, after the machines are allocated.',
  fix: 'Where the lock lacks something: run `vla lock` where the data and the weights are at hand, and commit vla.lock.json. Where the catalog does: nothing, the preflight looks.',
  suppress: { allowed: false, because: 'It is information, and fails no check.' },
  sources: [
    {
      title: 'design of this catalogue: unknown is a value of the Plan',
      at: 'sdk/plan/guard.ts',
      locator: 'UnknownRead',
    },
  ],
  messages: {
    missing: 'Not looked at, since {because}: {rules}.',
    undescribed: 'Not looked at, since {because}: {rules}.',
  },
  valid: [{ caption: 'The lock knows the dataset.', code: `name: 'locked',` }],
  invalid: [
    {
      caption: 'Nothing is known of the dataset.',
      code: `name: 'unlocked',`,
      lock: { datasets: { 'data/reach': null } },
    },
  ],
  check: () => undefined,
})
