import type { DeclarationEdit, DeclarationPath } from '../../finding/finding.ts'
import { defineRule } from '../rule.ts'

export const policyCannotCarryIt = defineRule({
  id: 'VLA533',
  name: 'policy-cannot-carry-it',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: "A LeRobot policy is declared with nothing that LeRobot's own policy directory cannot say.",
  why: "A robot loads the policy with LeRobot's code alone. What its processors and classes have no words for would be true in training and false on the robot.",
  fix: 'Remove it, or choose what LeRobot has.',
  suppress: { allowed: false, because: 'The failure is silent: the robot acts on other inputs than the trainer saw.' },
  sources: [
    {
      title: 'LeRobot',
      at: 'lerobot/processor/normalize_processor.py',
      locator: 'one mode per kind of feature, no mask, no clipping',
    },
    { title: 'LeRobot', at: 'lerobot/policies/factory.py', locator: 'make_pre_post_processors: no crop of images' },
  ],
  messages: {
    hf: "A LeRobot policy has no Hugging Face package: it is loaded by LeRobot's own classes.",
    crop: "Training would crop the images, and LeRobot's processors give the policy whole ones.",
    mask: 'Action dimensions that pass unnormalised cannot be said in a LeRobot policy directory.',
    clip: "LeRobot's normaliser does not clip.",
  },
  valid: [
    {
      caption: 'A policy directory, colours jittered.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { pretrained_backbone_weights: null } }),
augment: imageAugmentation({ brightness: 0.2 }),
export: [lerobot()],`,
    },
  ],
  invalid: [
    {
      caption: 'A Hugging Face package.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { pretrained_backbone_weights: null } }),
export: [hf(), lerobot()],`,
    },
    {
      caption: 'A crop.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { pretrained_backbone_weights: null } }),
augment: imageAugmentation({ crop: 0.9 }),`,
    },
    {
      caption: 'A gripper that passes, and clipping.',
      code: `model: act({ cameras: ['front'], chunk: 16, config: { pretrained_backbone_weights: null } }),
normalize: { actionMask: [true, true, true, false], clip: true },`,
    },
  ],
  check({ plan, known, report }) {
    if (plan.model.family !== 'lerobot') return
    const remove = (path: DeclarationPath): { label: string; kind: 'suggestion'; edits: DeclarationEdit[] }[] => [
      { label: 'Remove it', kind: 'suggestion', edits: [{ kind: 'remove', path }] },
    ]
    plan.exports.forEach(({ kind }, index) => {
      if (kind !== 'hf') return
      const path = ['export', index]
      report({ message: 'hf', at: ['exports', index], path, data: {}, fix: 'Use lerobot().', fixes: remove(path) })
    })
    if (plan.augment !== null && plan.augment.crop !== null)
      report({ message: 'crop', at: ['augment', 'crop'], data: {}, fixes: remove(['augment', 'crop']) })
    if (plan.normalize.clip)
      report({ message: 'clip', at: ['normalize', 'clip'], data: {}, fixes: remove(['normalize', 'clip']) })
    if (known(plan.normalize.actionMask).includes(false))
      report({ message: 'mask', at: ['normalize', 'actionMask'], data: {}, fixes: remove(['normalize', 'actionMask']) })
  },
})
