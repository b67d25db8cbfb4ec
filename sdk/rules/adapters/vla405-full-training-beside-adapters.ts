import { everTrains, listed } from '../facts.ts'
import { defineRule } from '../rule.ts'

/** Below this many parameters a module is a head or a projector, which usually trains in full beside adapters. */
const LARGE = 1e8

/** What makes the actions: new to every robot, so that it usually trains in full where the trunk has adapters (OpenVLA-OFT, pi0.5). */
const ACTING: readonly string[] = ['action', 'expert', 'policy']

export const fullTrainingBesideAdapters = defineRule({
  id: 'VLA405',
  name: 'full-training-beside-adapters',
  area: 'adapters',
  severity: 'warning',
  since: '0.1.0',
  summary: 'Where some modules have adapters, it is said of every other large part of the trunk what becomes of it.',
  why: 'A module that is not named trains in full. Beside adapters that is seldom meant: the vision encoder takes masters, gradients and moments of all of its parameters, at a learning rate that was chosen for adapters.',
  fix: "Say it: adapt: lora({ ... }), freeze: 'always', or its own `lr` where it is to train in full.",
  suppress: { allowed: true, when: 'The module is to train in full at the default learning rate.' },
  sources: [
    {
      title: 'openpi issue 744',
      at: 'https://github.com/Physical-Intelligence/openpi/issues/744',
      locator: 'a recipe with adapters left the whole vision encoder training',
    },
  ],
  messages: {
    unsaid:
      "{adapted} {verb} adapters, and '{module}', of which nothing is said, trains all of its {count} parameters.",
  },
  valid: [
    {
      caption: 'Adapters everywhere.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
modules: { vision: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
    {
      caption: 'In full, and said.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
modules: { vision: { lr: 2e-5 }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
    {
      caption: 'OpenVLA-OFT: the head of 151 million parameters trains in full.',
      code: `model: openvla({ weights: 'openvla/openvla-7b', action: regression({ chunk: 8 }) }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 8 }),
modules: { vision: { adapt: lora({ rank: 32 }) }, language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
    {
      caption: "pi0.5's action expert beside adapters on its language model.",
      code: `model: pi05({ weights: 'lerobot/pi05_base', cameras: ['base_0_rgb'] }),
cameras: { base_0_rgb: 'observation.image' },
hardware: gpus('RTX-4090', { perNode: 2 }),
modules: { vision: { freeze: 'always' }, language: { adapt: lora({ rank: 32 }), recompute: 'full' } },
training: { updates: 1_000, globalBatch: 32, microBatch: 4, lr: 1e-4 },`,
    },
  ],
  invalid: [
    {
      caption: 'The vision towers were forgotten.',
      code: `model: openvla({ weights: 'openvla/openvla-7b' }),
cameras: { primary: 'observation.image' },
hardware: gpus('A100-SXM-80GB', { perNode: 4 }),
modules: { language: { adapt: lora({ rank: 32 }) } },
training: { updates: 1_000, globalBatch: 64, microBatch: 8 },`,
    },
  ],
  check({ plan, path, declared, known, each, report }) {
    const adapted = plan.modules.filter((module) => module.adapt !== null)
    if (adapted.length === 0) return
    each(plan.modules, (module, index) => {
      const isSaid = (['lr', 'freeze', 'adapt'] as const).some((field) => {
        const at = ['modules', index, field]
        return declared(at) && path(at)[0] === 'modules'
      })
      const phased = module.freeze.length > 1 // a schedule is derived from what was declared
      if (module.adapt !== null || isSaid || phased || ACTING.includes(module.name)) return
      if (!everTrains(module, plan.training.updates)) return
      const count = known(module.count)
      if (count < LARGE) return
      report({
        message: 'unsaid',
        at: ['modules', index],
        path: ['modules'],
        on: 'key',
        data: {
          adapted: listed(adapted.map(({ name }) => name)),
          verb: adapted.length === 1 ? 'has' : 'have',
          module: module.name,
          count,
        },
        fixes: [
          {
            label: `Freeze '${module.name}'`,
            kind: 'suggestion',
            edits: [{ kind: 'set', path: ['modules', module.name], value: { freeze: 'always' } }],
          },
        ],
      })
    })
  },
})
