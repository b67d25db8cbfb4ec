import { defineRule } from '../rule.ts'

/** Of a frame: half of one, and another frame is the nearest. */
const TOLERANCE = 0.5

export const timestampsOffTheRate = defineRule({
  id: 'VLA550',
  name: 'timestamps-off-the-rate',
  area: 'data',
  severity: 'error',
  since: '0.1.0',
  summary: "A video dataset's timestamps run at the rate that its info.json says.",
  why: 'The frame of a video is found by its timestamp, and those of an action chunk by the rate. Where the two drift apart, LeRobot stops in the middle of the run at the first frame that is not within its tolerance, or a policy learns from pictures of other moments.',
  fix: 'Correct fps in meta/info.json where the recording ran at another rate, or record the dataset again with timestamps of frame_index / fps.',
  suppress: { allowed: false, because: 'The run fails at the first frame out of step.' },
  sources: [
    {
      title: 'LeRobot issue 1875',
      at: 'https://github.com/huggingface/lerobot/issues/1875',
      locator: 'timestamps violate the tolerance',
    },
    {
      title: 'LeRobot',
      at: 'lerobot/datasets/lerobot_dataset.py',
      locator: 'tolerance_s = 1e-4 for the nearest frame of a video',
    },
  ],
  messages: {
    drift:
      "In '{dataset}', the longest episode has frame {frame} at {seconds} s: that is {real} Hz, and its info.json says {fps}.",
  },
  valid: [
    {
      caption: 'Sixty frames of a video at 80 Hz.',
      code: `name: 'steady',`,
      lock: {
        datasets: {
          'data/reach': {
            features: { 'observation.image': { dtype: 'video' } },
            statistics: { timestamp: { max: [0.7375] }, frame_index: { max: [59] } },
          },
        },
      },
    },
    {
      caption: 'Pictures, which are found by their row.',
      code: `name: 'pictures',`,
      lock: {
        datasets: { 'data/reach': { statistics: { timestamp: { max: [0.8] }, frame_index: { max: [59] } } } },
      },
    },
  ],
  invalid: [
    {
      caption: 'Recorded at about 74 Hz, and written down as 80.',
      code: `name: 'drift',`,
      lock: {
        datasets: {
          'data/reach': {
            features: { 'observation.image': { dtype: 'video' } },
            statistics: { timestamp: { max: [0.8] }, frame_index: { max: [59] } },
          },
        },
      },
    },
  ],
  check({ plan, known, each, report }) {
    each(plan.datasets, (dataset, index) => {
      const fps = known(dataset.fps)
      const clock = known(dataset.clock)
      if (!known(dataset.video) || clock === null) return
      const { timestampMax, frameIndexMax } = clock
      if (Math.abs(timestampMax * fps - frameIndexMax) <= TOLERANCE) return
      report({
        message: 'drift',
        at: ['datasets', index, 'fps'],
        data: {
          dataset: dataset.name,
          frame: frameIndexMax,
          seconds: Number(timestampMax.toPrecision(6)),
          real: timestampMax > 0 ? Number((frameIndexMax / timestampMax).toPrecision(4)) : 0,
          fps,
        },
      })
    })
  },
})
