import { defineRule } from '../rule.ts'
import { assignments, setupLines, withoutLine } from '../setup.ts'

/** Variables that nothing of the pinned versions reads, and what does what they did. */
const INSTEAD: readonly (readonly [RegExp, string])[] = [
  [/^(PYTORCH_TRANSFORMERS|TRANSFORMERS|PYTORCH_PRETRAINED_BERT)_CACHE$/, 'Set HF_HOME (or HF_HUB_CACHE).'],
  [/^HF_HUB_ENABLE_HF_TRANSFER$/, 'Set HF_XET_HIGH_PERFORMANCE=1.'],
  [/^TORCH_NCCL_AVOID_RECORD_STREAMS$/, 'Remove it: torch does that by itself since 2.8.'],
  [/^(ACCELERATE|FSDP|DEEPSPEED)_\w+$/, 'Say it in pipeline.ts: precision in `modules`, sharding in `parallel`.'],
]

export const environmentWithoutEffect = defineRule({
  id: 'VLA808',
  name: 'environment-without-effect',
  area: 'launch',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Variables of the setup are read by something.',
  why: 'The line reads as if it decided something, and the pinned versions of torch, transformers and the hub do not look at it: a cache that was to be on a large disk fills the home directory, precision and sharding are those of the plan.',
  fix: 'Use what replaces it, or remove the line.',
  suppress: { allowed: true, when: 'A program of your own in the setup reads the variable.' },
  sources: [
    {
      title: 'transformers 5.5',
      at: 'https://huggingface.co/docs/transformers/main/en/installation#cache-directory',
      locator: 'HF_HOME',
    },
    {
      title: 'huggingface_hub',
      at: 'huggingface_hub/constants.py',
      locator: 'HF_HUB_ENABLE_HF_TRANSFER is deprecated',
    },
    { title: 'torchtitan issue 1088', at: 'https://github.com/pytorch/torchtitan/issues/1088' },
  ],
  messages: { unread: 'Nothing reads {name}.' },
  valid: [
    {
      caption: 'The variable of the hub.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export HF_HOME=/scratch/hub'] })],`,
    },
  ],
  invalid: [
    {
      caption: 'A cache of transformers 4.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export TRANSFORMERS_CACHE=/scratch/hub'] })],`,
    },
    {
      caption: 'Precision for another launcher.',
      code: `launch: [slurm({ partition: 'gpu', time: '24:00:00', setup: ['export ACCELERATE_MIXED_PRECISION=bf16'] })],`,
    },
  ],
  check({ plan, report }) {
    for (const { text, path } of setupLines(plan)) {
      for (const { name } of assignments(text)) {
        const fix = INSTEAD.find(([pattern]) => pattern.test(name))?.[1]
        if (fix === undefined) continue
        report({ message: 'unread', at: ['launch'], path, data: { name }, fix, fixes: [withoutLine(path)] })
      }
    }
  },
})
