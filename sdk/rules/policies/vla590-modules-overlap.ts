import { fnmatch } from '../../catalog/parameters.ts'
import { defineRule } from '../rule.ts'

export const modulesOverlap = defineRule({
  id: 'VLA590',
  name: 'modules-overlap',
  area: 'policies',
  severity: 'error',
  since: '0.1.0',
  summary: 'The patterns of two modules match no name in common.',
  why: 'Each parameter belongs to one module, which says how it trains. One that two patterns match has two learning rates, and the run refuses it when it starts.',
  fix: 'Narrow one of the patterns.',
  suppress: { allowed: false, because: 'The generated run refuses it.' },
  sources: [
    {
      title: 'generated runtime',
      at: 'templates/runtime/vla_runtime/partition.py',
      locator: 'Partition: each parameter in exactly one module',
    },
  ],
  messages: { overlap: "The pattern '{wide}' of '{first}' matches all that '{narrow}' of '{second}' does." },
  valid: [
    {
      caption: 'Two branches.',
      code: `model: lerobotPolicy({ type: 'mine', plugin: 'lerobot_policy_mine', cameras: ['front'], chunk: 8, images: 'identity', modules: { vision: { parameters: ['vision.*'] }, head: { parameters: ['head.*'] } } }),`,
    },
  ],
  invalid: [
    {
      caption: 'Everything, and a part of it.',
      code: `model: lerobotPolicy({ type: 'mine', plugin: 'lerobot_policy_mine', cameras: ['front'], chunk: 8, images: 'identity', modules: { rest: { parameters: ['*'] }, head: { parameters: ['head.*'] } } }),`,
    },
  ],
  check({ plan, report }) {
    const patterns = plan.modules.flatMap(({ name, parameters }, index) =>
      parameters.map((pattern) => ({ name, index, pattern })),
    )
    for (const narrow of patterns) {
      // A pattern is itself a name that it matches, but for its wildcards, which only a wildcard matches.
      const wide = patterns.find(({ name, pattern }) => name !== narrow.name && fnmatch(pattern).test(narrow.pattern))
      if (wide === undefined || (wide.pattern === narrow.pattern && wide.index > narrow.index)) continue
      report({
        message: 'overlap',
        at: ['modules', narrow.index, 'parameters'],
        path: ['model', 'modules', narrow.name, 'parameters'],
        data: { wide: wide.pattern, first: wide.name, narrow: narrow.pattern, second: narrow.name },
        related: [
          {
            at: ['modules', wide.index, 'parameters'],
            path: ['model', 'modules', wide.name, 'parameters'],
            note: `the pattern of '${wide.name}'`,
          },
        ],
      })
    }
  },
})
