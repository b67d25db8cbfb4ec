import { defineRule } from '../rule.ts'

export const promptWithoutInstruction = defineRule({
  id: 'VLA511',
  name: 'prompt-without-instruction',
  area: 'model',
  severity: 'error',
  since: '0.1.0',
  summary: 'The prompt holds {instruction}.',
  why: 'The model would see the same words for every task and could not tell one from another.',
  fix: 'Write {instruction} where the task belongs.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/experiments/robot/openvla_utils.py',
      locator: 'get_vla_action: "In: What action should the robot take to {task_label.lower()}?"',
    },
  ],
  messages: { absent: 'The prompt does not hold {place}.' },
  valid: [
    {
      caption: 'With its place.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), prompt: 'Do: {instruction}', promptTokens: 96 }),`,
    },
  ],
  invalid: [
    {
      caption: 'A template string of another framework.',
      code: `model: composed({ cameras: ['front'], vision: tower, projector: keyPoints, language: trunk, action: regression({ chunk: 8 }), prompt: 'Do: {lang}', promptTokens: 96 }),`,
    },
  ],
  check({ plan, report }) {
    if (plan.model.family === 'lerobot' || plan.model.prompt.includes('{instruction}')) return
    report({ message: 'absent', at: ['model', 'prompt'], data: { place: '{instruction}' } })
  },
})
