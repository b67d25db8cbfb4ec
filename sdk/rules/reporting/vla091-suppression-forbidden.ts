import { defineRule } from '../rule.ts'

/** Reported by the runner, which knows what was suppressed. */
export const suppressionForbidden = defineRule({
  id: 'VLA091',
  name: 'suppression-forbidden',
  area: 'reporting',
  severity: 'error',
  since: '0.1.0',
  summary: 'Only rules whose failure is neither certain nor silent can be switched off, and only with a reason.',
  why: 'What such a rule reports stops the run or corrupts it without a sign; nobody could decide otherwise knowing that.',
  fix: 'Remove the suppression and put right what the rule reports.',
  suppress: { allowed: false, because: 'It would suppress itself.' },
  sources: [
    {
      title: 'design of this catalogue: suppression is an audit trail, not a switch',
      at: 'sdk/rules/run.ts',
      locator: 'suppressionFindings',
    },
  ],
  messages: {
    forbidden: 'The rule {rule} ({name}) cannot be switched off. {because}',
    unknown: 'There is no rule {rule} that could be switched off.',
    withoutReason: 'The rule {rule} is switched off without a reason.',
  },
  valid: [
    {
      caption: 'A rule that weighs quality.',
      code: `modules: { vision: { lr: 1e-6 }, action: { lr: 1e-3 } },\nrules: { VLA203: off('the tower is pretrained, the head is new') },`,
    },
  ],
  invalid: [
    {
      caption: 'A certain failure.',
      code: `training: { updates: 1_000, globalBatch: 65, microBatch: 32, lr: 1e-3 },\nrules: { VLA201: off('we know') },`,
      also: ['VLA201'],
    },
    { caption: 'No such rule.', code: `rules: { VLA999: off('we know') },` },
  ],
  check: () => undefined,
})
