import { defineRule } from '../rule.ts'

export const stateOutsideBins = defineRule({
  id: 'VLA545',
  name: 'state-outside-bins',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'pi0.5 is shown a state between -1 and 1.',
  why: 'pi0.5 writes the state into its prompt as numbers of 256 bins from -1 to 1. What lies beyond falls into the outermost bin: by mean and deviation that is a third of all values, unnormalised joints nearly all.',
  fix: "Use normalize: { state: 'quantiles' } (LeRobot's), or 'minMax'.",
  suppress: { allowed: false, because: 'The failure is silent: the prompt reads like any other.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/policies/pi05/processor_pi05.py',
      locator: 'Pi05PrepareStateTokenizerProcessorStep: np.digitize over [-1, 1]',
    },
  ],
  messages: { outside: "pi0.5 reads the state in bins from -1 to 1, but it is normalised by '{mode}'." },
  valid: [
    {
      caption: 'By quantiles.',
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },`,
    },
  ],
  invalid: [
    {
      caption: 'By mean and deviation.',
      code: `model: pi05({ cameras: ['base_0_rgb'] }),\ncameras: { base_0_rgb: 'observation.image' },\nnormalize: { state: 'meanStd' },`,
    },
  ],
  check({ plan, path, report }) {
    const mode = plan.normalize.state
    if (plan.model.family !== 'lerobot' || plan.model.type !== 'pi05') return
    if (mode === 'quantiles' || mode === 'minMax') return
    const at = ['normalize', 'state']
    report({
      message: 'outside',
      at,
      data: { mode },
      related: [{ at: ['model', 'type'], path: ['model'], note: 'pi0.5' }],
      fixes: [
        { label: "Use 'quantiles'", kind: 'suggestion', edits: [{ kind: 'set', path: path(at), value: 'quantiles' }] },
      ],
    })
  },
})
