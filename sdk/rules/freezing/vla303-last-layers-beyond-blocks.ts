import { defineRule } from '../rule.ts'

export const lastLayersBeyondBlocks = defineRule({
  id: 'VLA303',
  name: 'last-layers-beyond-blocks',
  area: 'freezing',
  severity: 'error',
  since: '0.1.0',
  summary: 'lastLayers(n) asks for no more blocks than a tower or trunk has alive.',
  why: 'Blocks behind the one whose output is taken receive no gradient (the last of each tower of OpenVLA) and are not counted. There is no n-th block to train.',
  fix: "Ask for fewer blocks, or train everything ('all').",
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'OpenVLA',
      at: 'openvla/prismatic/models/backbones/vision/base_vision.py',
      locator: 'get_intermediate_layers(n={len(blocks) - 2}): the last block is never used',
    },
    { title: 'generated runtime', at: 'templates/runtime/vla_runtime/partition.py', locator: '_check_phases' },
  ],
  messages: { beyond: "lastLayers({asked}) of '{module}', but {blocks} has {live} live blocks." },
  valid: [
    { caption: '2 of 4.', code: `modules: { language: { freeze: until('50%', { thenTrain: lastLayers(2) }) } },` },
  ],
  invalid: [
    { caption: '6 of 4.', code: `modules: { language: { freeze: until('50%', { thenTrain: lastLayers(6) }) } },` },
  ],
  check({ plan, known, each, report }) {
    each(plan.modules, (module, index) => {
      if (module.blocks.length === 0) return
      const asked = Math.max(
        0,
        ...module.freeze.map((phase) => (typeof phase.trains === 'object' ? phase.trains.lastLayers : 0)),
      )
      if (asked === 0) return
      const stacks = module.blocks.map((blocks, stack) => ({ blocks, live: known(module.liveBlocks[stack] ?? 0) }))
      const short = stacks.find((stack) => asked > stack.live)
      if (short === undefined) return
      report({
        message: 'beyond',
        at: ['modules', index, 'freeze'],
        data: { asked, module: module.name, blocks: short.blocks, live: short.live },
        fix: `Ask for at most ${String(Math.min(...stacks.map((stack) => stack.live)))}, or train everything ('all').`,
      })
    })
  },
})
