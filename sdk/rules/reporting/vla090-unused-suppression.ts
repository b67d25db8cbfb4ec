import { defineRule } from '../rule.ts'

/** Reported by the runner, which knows what was suppressed. */
export const unusedSuppression = defineRule({
  id: 'VLA090',
  name: 'unused-suppression',
  area: 'reporting',
  severity: 'warning',
  since: '0.1.0',
  summary: 'A rule that is switched off must have something to be silent about.',
  why: 'The suppression would hide the finding when it comes back for another reason than the one that was accepted.',
  fix: 'Remove the suppression.',
  suppress: { allowed: false, because: 'Removing the line is the remedy, and costs nothing.' },
  sources: [
    {
      title: 'ESLint, reportUnusedDisableDirectives',
      at: 'https://eslint.org/docs/latest/use/configure/rules',
      locator: 'Report unused eslint-disable comments',
    },
  ],
  messages: { unused: 'The rule {rule} ({name}) is switched off, but finds nothing here.' },
  valid: [
    {
      caption: 'The rule finds something.',
      code: `modules: { vision: { lr: 1e-6 }, action: { lr: 1e-3 } },\nrules: { VLA203: off('the tower is pretrained, the head is new') },`,
    },
  ],
  invalid: [{ caption: 'Nothing to be silent about.', code: `rules: { VLA203: off('it was once needed') },` }],
  check: () => undefined,
})
