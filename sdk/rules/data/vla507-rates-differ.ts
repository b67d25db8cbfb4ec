import { chunkOf } from '../../plan/plan.ts'
import { defineRule } from '../rule.ts'

export const ratesDiffer = defineRule({
  id: 'VLA507',
  name: 'rates-differ',
  area: 'data',
  severity: 'warning',
  since: '0.1.0',
  summary: 'All datasets of a mixture were recorded at one rate.',
  why: 'A chunk of actions lasts longer in one dataset than in another, and a policy that is told neither rate learns a blur of both.',
  fix: 'Resample the datasets to a common rate, or train on those of one rate.',
  suppress: {
    allowed: true,
    when: 'The instruction or the embodiment tells the rates apart, or actions are targets whose spacing in time does not matter.',
  },
  sources: [
    {
      title: 'LeRobot issue 3513',
      at: 'https://github.com/huggingface/lerobot/issues/3513',
      locator: 'rates and time stamps that do not agree',
    },
  ],
  messages: {
    differ:
      "'{dataset}' was recorded at {fps} Hz, '{other}' at {otherFps} Hz: a chunk of {chunk} actions lasts {seconds} s in one and {otherSeconds} s in the other.",
  },
  valid: [
    {
      caption: 'Both at 80 Hz.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 2 }, { from: lerobotDataset({ root: 'data/push' }), weight: 1 }],`,
      lock: { datasets: { 'data/push': { $copy: 'data/reach' } } },
    },
  ],
  invalid: [
    {
      caption: '80 and 10 Hz.',
      code: `data: [{ from: lerobotDataset({ root: 'data/reach' }), weight: 2 }, { from: lerobotDataset({ root: 'data/push' }), weight: 1 }],`,
      lock: { datasets: { 'data/push': { $copy: 'data/reach', fps: 10 } } },
    },
  ],
  check({ plan, known, each, report }) {
    const chunk = known(chunkOf(plan.model).chunk)
    const seconds = (fps: number): number => Number((chunk / fps).toPrecision(3))
    let first: { name: string; fps: number; index: number } | undefined
    each(plan.datasets, (dataset, index) => {
      const fps = known(dataset.fps)
      if (first === undefined) first = { name: dataset.name, fps, index }
      else if (Math.abs(fps - first.fps) > 1e-6 * first.fps) {
        report({
          message: 'differ',
          at: ['datasets', index],
          data: {
            dataset: dataset.name,
            fps,
            other: first.name,
            otherFps: first.fps,
            chunk,
            seconds: seconds(fps),
            otherSeconds: seconds(first.fps),
          },
          related: [{ at: ['datasets', first.index], note: `'${first.name}'` }],
        })
      }
    })
  },
})
