import { defineRule } from '../rule.ts'

export const lastLayersWithoutBlocks = defineRule({
  id: 'VLA306',
  name: 'last-layers-without-blocks',
  area: 'freezing',
  severity: 'error',
  since: '0.1.0',
  summary: 'lastLayers(n) is for modules with repeated blocks.',
  why: 'There are no blocks to count, so nothing would be unfrozen.',
  fix: "Train everything of this module ('all').",
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: '_check_phases: a LastLayers phase, but no blocks to count',
    },
  ],
  messages: { none: "lastLayers({asked}) of '{module}', which has no blocks." },
  valid: [
    {
      caption: 'The trunk has blocks.',
      code: `modules: { language: { freeze: until('50%', { thenTrain: lastLayers(1) }) } },`,
    },
  ],
  invalid: [
    {
      caption: 'The projector has none.',
      code: `modules: { projector: { freeze: until('50%', { thenTrain: lastLayers(1) }) } },`,
    },
  ],
  check({ plan, each, report }) {
    each(plan.modules, (module, index) => {
      if (module.blocks.length > 0) return
      const asked = module.freeze.find((phase) => typeof phase.trains === 'object')?.trains
      if (typeof asked !== 'object') return
      report({
        message: 'none',
        at: ['modules', index, 'freeze'],
        data: { asked: asked.lastLayers, module: module.name },
      })
    })
  },
})
