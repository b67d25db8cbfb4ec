import { describe, expect, it } from 'vitest'
import type { DeclarationEdit, Finding, Fix } from '../../sdk/finding/finding.ts'
import { applyFixes, safeFixes } from '../../sdk/locate/apply.ts'
import { locate } from '../../sdk/locate/locate.ts'

const FILE = '/p/pipeline.ts'

function finding(edits: readonly DeclarationEdit[], kind: Fix['kind'] = 'safe'): Finding {
  return {
    id: 'VLA101',
    severity: 'error',
    message: '',
    why: '',
    fix: '',
    path: [],
    at: 'value',
    related: [],
    fixes: [{ label: 'l', kind, edits }],
  }
}

async function fixed(text: string, ...findings: Finding[]): Promise<{ text: string | undefined; skipped: number }> {
  const declaration: unknown = evaluate(text)
  const diagnostics = await locate(findings, {
    file: FILE,
    declaration,
    root: '/p',
    read: (path) => (path === FILE ? text : undefined),
  })
  const result = applyFixes(safeFixes(diagnostics), () => text)
  return { text: result.files.get('pipeline.ts'), skipped: result.skipped.length }
}

/** Runs a small file: imports dropped, constructors that return their arguments. */
function evaluate(text: string): unknown {
  const body = text
    .replace(/^(\ufeff|#!.*\n)/, '')
    .replace(/^import .*$/gm, '')
    .replace('export default', 'return')
  const names = ['defineVLAPipeline', 'gpus', 'ddp', 'until']
  const make = [
    (c: object) => c,
    (gpu: string, o: object) => ({ kind: 'gpus', gpu, ...o }),
    () => ({ kind: 'ddp' }),
    (when: string, o: object) => ({ kind: 'until', when, ...o }),
  ]
  // eslint-disable-next-line @typescript-eslint/no-implied-eval, @typescript-eslint/no-unsafe-call -- the text is the test's own
  return new Function(...names, body)(...make) as unknown
}

const HEAD = `import { defineVLAPipeline, ddp, gpus, until } from 'vla-pipeline'\n`
const set = (path: (string | number)[], value: unknown): DeclarationEdit => ({ kind: 'set', path, value })

describe('edits of the text', () => {
  const cases: [name: string, before: string, edit: DeclarationEdit, after: string][] = [
    [
      'replaces a value',
      `export default defineVLAPipeline({ a: { lr: 1 } })`,
      set(['a', 'lr'], 2e-5),
      `export default defineVLAPipeline({ a: { lr: 2e-5 } })`,
    ],
    [
      'writes a shorthand out',
      `const lr = 1\nexport default defineVLAPipeline({ a: { lr } })`,
      set(['a', 'lr'], 50_000),
      `const lr = 1\nexport default defineVLAPipeline({ a: { lr: 50_000 } })`,
    ],
    [
      'replaces the name of a constant, not the constant',
      `const LR = 1\nexport default defineVLAPipeline({ a: { lr: LR }, b: LR })`,
      set(['a', 'lr'], 2),
      `const LR = 1\nexport default defineVLAPipeline({ a: { lr: 2 }, b: LR })`,
    ],
    [
      'adds a property on one line',
      `export default defineVLAPipeline({ a: { lr: 1 } })`,
      set(['a', 'dtype'], "it's"),
      `export default defineVLAPipeline({ a: { lr: 1, dtype: 'it\\'s' } })`,
    ],
    [
      'adds a property on its own line',
      `export default defineVLAPipeline({\n  a: 1, // one\n})`,
      set(['b'], [1, 'x']),
      `export default defineVLAPipeline({\n  a: 1, // one\n  b: [1, 'x'],\n})`,
    ],
    [
      'adds a comma where there is none',
      `export default defineVLAPipeline({\n  a: 1 // one\n})`,
      set(['b'], true),
      `export default defineVLAPipeline({\n  a: 1, // one\n  b: true,\n})`,
    ],
    [
      'fills an empty object',
      `export default defineVLAPipeline({ a: {} })`,
      set(['a', 'b'], null),
      `export default defineVLAPipeline({ a: { b: null } })`,
    ],
    [
      'leaves the comment of an empty object',
      `export default defineVLAPipeline({ a: { /* nothing yet */ } })`,
      set(['a', 'b'], null),
      `export default defineVLAPipeline({ a: { b: null, /* nothing yet */ } })`,
    ],
    [
      'makes what lies between',
      `export default defineVLAPipeline({ a: 1 })`,
      set(['m', 'vision', 'lr'], 0.1),
      `export default defineVLAPipeline({ a: 1, m: { vision: { lr: 0.1 } } })`,
    ],
    [
      'gives a constructor its options',
      `export default defineVLAPipeline({ h: gpus('T4') })`,
      set(['h', 'nodes'], 2),
      `export default defineVLAPipeline({ h: gpus('T4', { nodes: 2 }) })`,
    ],
    [
      "adds to a constructor's options",
      `export default defineVLAPipeline({ f: until('5%', { rewarm: 3 }) })`,
      set(['f', 'thenTrain'], 'all'),
      `export default defineVLAPipeline({ f: until('5%', { rewarm: 3, thenTrain: 'all' }) })`,
    ],
    [
      'edits a constant that is named once',
      `const c = { a: 1 }\nexport default defineVLAPipeline(c)`,
      set(['b'], 2),
      `const c = { a: 1, b: 2 }\nexport default defineVLAPipeline(c)`,
    ],
    [
      'removes a property in a line',
      `export default defineVLAPipeline({ a: 1, b: 2, c: 3 })`,
      { kind: 'remove', path: ['b'] },
      `export default defineVLAPipeline({ a: 1, c: 3 })`,
    ],
    [
      'removes the last property in a line',
      `export default defineVLAPipeline({ a: 1, b: 2 })`,
      { kind: 'remove', path: ['b'] },
      `export default defineVLAPipeline({ a: 1 })`,
    ],
    [
      'removes a property with its line',
      `export default defineVLAPipeline({\n  a: 1,\n  b: 2, // gone\n  c: 3,\n})`,
      { kind: 'remove', path: ['b'] },
      `export default defineVLAPipeline({\n  a: 1,\n  c: 3,\n})`,
    ],
    [
      'removes an element',
      `export default defineVLAPipeline({ a: [1, 2] })`,
      { kind: 'remove', path: ['a', 0] },
      `export default defineVLAPipeline({ a: [2] })`,
    ],
    [
      'removes the last before a comma',
      `export default defineVLAPipeline({ a: 1, b: 2, })`,
      { kind: 'remove', path: ['b'] },
      `export default defineVLAPipeline({ a: 1, })`,
    ],
    [
      'removes the last behind a comment',
      `export default defineVLAPipeline({ a: 1, // one\n  b: 2 })`,
      { kind: 'remove', path: ['b'] },
      `export default defineVLAPipeline({ a: 1, // one\n   })`,
    ],
    [
      'removes a line of a file from Windows',
      `export default defineVLAPipeline({\r\n  a: 1,\r\n  b: 2,\r\n})`,
      { kind: 'remove', path: ['a'] },
      `export default defineVLAPipeline({\r\n  b: 2,\r\n})`,
    ],
    [
      'renames a key',
      `export default defineVLAPipeline({ a: { vison: 1 } })`,
      { kind: 'renameKey', path: ['a', 'vison'], to: 'vision' },
      `export default defineVLAPipeline({ a: { vision: 1 } })`,
    ],
    [
      'renames a shorthand',
      `const vison = 1\nexport default defineVLAPipeline({ vison })`,
      { kind: 'renameKey', path: ['vison'], to: 'my vision' },
      `const vison = 1\nexport default defineVLAPipeline({ 'my vision': vison })`,
    ],
  ]
  it.each(cases)('%s', async (_, before, edit, after) => {
    expect(await fixed(HEAD + before, finding([edit]))).toEqual({ text: HEAD + after, skipped: 0 })
  })

  const several: [name: string, before: string, edits: DeclarationEdit[], after: string][] = [
    [
      'a property takes the place of the only one',
      `export default defineVLAPipeline({ a: { lr: 0 } })`,
      [set(['a', 'freeze'], 'always'), { kind: 'remove', path: ['a', 'lr'] }],
      `export default defineVLAPipeline({ a: { freeze: 'always' } })`,
    ],
    [
      'a property takes the place of the last one on its line, with its comment',
      `export default defineVLAPipeline({\n  a: 1,\n  b: 2, // two\n})`,
      [{ kind: 'remove', path: ['b'] }, set(['c'], 3)],
      `export default defineVLAPipeline({\n  a: 1,\n  c: 3, // two\n})`,
    ],
    [
      'neighbours go',
      `export default defineVLAPipeline({ x: 0, a: 1, b: 2 })`,
      [
        { kind: 'remove', path: ['b'] },
        { kind: 'remove', path: ['a'] },
      ],
      `export default defineVLAPipeline({ x: 0 })`,
    ],
    [
      'neighbours go with their lines',
      `export default defineVLAPipeline({\n  a: 1,\n  b: 2,\n  c: 3,\n})`,
      [
        { kind: 'remove', path: ['a'] },
        { kind: 'remove', path: ['b'] },
      ],
      `export default defineVLAPipeline({\n  c: 3,\n})`,
    ],
    [
      'two come',
      `export default defineVLAPipeline({ a: 1 })`,
      [set(['b'], 2), set(['c'], 3)],
      `export default defineVLAPipeline({ a: 1, b: 2, c: 3 })`,
    ],
    [
      'two come on their own lines',
      `export default defineVLAPipeline({\n  a: 1 // one\n})`,
      [set(['b'], 2), set(['c'], 3)],
      `export default defineVLAPipeline({\n  a: 1, // one\n  b: 2,\n  c: 3,\n})`,
    ],
    [
      'two come below one without a comma',
      `export default defineVLAPipeline({\n  a: 1\n})`,
      [set(['b'], 2), set(['c'], 3)],
      `export default defineVLAPipeline({\n  a: 1,\n  b: 2,\n  c: 3,\n})`,
    ],
  ]
  it.each(several)('of one fix: %s', async (_, before, edits, after) => {
    expect(await fixed(HEAD + before, finding(edits))).toEqual({ text: HEAD + after, skipped: 0 })
  })

  it('of one fix that meet are refused', async () => {
    const edits = [set(['a', 'lr'], 2), set(['a'], { lr: 3 })]
    const text = `${HEAD}export default defineVLAPipeline({ a: { lr: 1 } })`
    expect(await fixed(text, finding(edits))).toEqual({ text: undefined, skipped: 1 })
  })

  it.each(['\ufeff', '// é 🤖 日本\r\n', '#!/usr/bin/env node\n'])(
    'leave what stands before as it is: %j',
    async (start) => {
      const text = `${start}${HEAD.replaceAll('\n', '\r\n')}export default defineVLAPipeline({\r\n  a: 1, // ü\r\n})\r\n`
      const result = await fixed(text, finding([set(['a'], 2), set(['b'], 3)]))
      expect(result.text).toBe(text.replace('a: 1, // ü', 'a: 2, // ü\r\n  b: 3,'))
    },
  )

  it('imports the constructor that it writes', async () => {
    const before = `${HEAD}export default defineVLAPipeline({ parallel: ddp() })\n`
    const after = `import { defineVLAPipeline, fsdp2, ddp, gpus, until } from 'vla-pipeline'\nexport default defineVLAPipeline({ parallel: fsdp2({ shard: 'full' }) })\n`
    expect(await fixed(before, finding([set(['parallel'], { kind: 'fsdp2', shard: 'full' })]))).toEqual({
      text: after,
      skipped: 0,
    })
  })

  const refused: [name: string, text: string, edit: DeclarationEdit][] = [
    [
      'a fragment that serves two places',
      `const f = { lr: 1 }\nexport default defineVLAPipeline({ a: { ...f }, b: f })`,
      set(['a', 'lr'], 2),
    ],
    [
      'a line of a factory',
      `const f = () => ({ lr: 1 })\nexport default defineVLAPipeline({ a: f(), b: f() })`,
      set(['a', 'lr'], 2),
    ],
    ['a computed value', `export default defineVLAPipeline({ ['a' + 'b']: 1 })`, { kind: 'remove', path: ['ab'] }],
    [
      'an object behind a spread',
      `const f = { lr: 1 }\nexport default defineVLAPipeline({ a: f, b: f })`,
      set(['a', 'x'], 2),
    ],
  ]
  it.each(refused)('leaves %s to a person', async (_, text, edit) => {
    expect(await fixed(HEAD + text, finding([edit]))).toEqual({ text: undefined, skipped: 1 })
  })
})

describe('several fixes', () => {
  const text = `${HEAD}export default defineVLAPipeline({ a: 1, b: 2 })\n`
  it('are applied together where they do not touch', async () => {
    const result = await fixed(text, finding([set(['a'], 3)]), finding([set(['b'], 4)]))
    expect(result).toEqual({ text: `${HEAD}export default defineVLAPipeline({ a: 3, b: 4 })\n`, skipped: 0 })
  })
  it('of which one overlaps wait', async () => {
    const result = await fixed(text, finding([set(['a'], 3)]), finding([set(['a'], 4)]))
    expect(result).toEqual({ text: `${HEAD}export default defineVLAPipeline({ a: 3, b: 2 })\n`, skipped: 1 })
  })
  it('that insert at one place wait', async () => {
    const result = await fixed(text, finding([set(['c'], 3)]), finding([set(['d'], 4)]))
    expect(result.skipped).toBe(1)
  })
  it('that are suggestions are not applied', async () => {
    expect(await fixed(text, finding([set(['a'], 3)], 'suggestion'))).toEqual({ text: undefined, skipped: 0 })
  })
})
