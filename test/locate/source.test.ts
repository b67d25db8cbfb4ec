import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Finding } from '../../sdk/finding/finding.ts'
import { locate } from '../../sdk/locate/locate.ts'
import torture from './fixtures/torture.ts'

const folder = fileURLToPath(new URL('./fixtures/', import.meta.url))
const file = `${folder}torture.ts`
const texts: Record<string, string[]> = {}
for (const name of ['torture.ts', 'fragments.ts']) texts[name] = readFileSync(folder + name, 'utf8').split('\n')

type At = 'key' | 'value'
const finding = (path: Finding['path'], at: At = 'value'): Finding => ({
  id: 'VLA101',
  severity: 'error',
  message: 'm',
  why: 'w',
  fix: 'f',
  path,
  at,
  related: [],
  fixes: [],
})

/** `file:line:column exact|near text`, the text being what lies between the positions. */
async function place(path: Finding['path'], at: At = 'value'): Promise<string> {
  const [found] = await locate([finding(path, at)], { file, declaration: torture, root: folder })
  if (found === undefined) throw new Error('no diagnostic')
  const line = texts[found.file]?.[found.line - 1] ?? ''
  const text =
    found.endLine === found.line
      ? line.slice(found.column - 1, found.endColumn - 1)
      : `${line.slice(found.column - 1)}…`
  return `${found.file}:${String(found.line)}:${String(found.column)} ${found.exact ? 'exact' : 'near'} ${text}`
}

describe('paths of the torture file', () => {
  const cases: [path: Finding['path'], at: At, expected: string][] = [
    [['name'], 'value', "torture.ts:31:9 exact 'torture'"],
    [['name'], 'key', 'torture.ts:31:3 exact name'],
    [[], 'value', 'torture.ts:30:16 exact defineVLAPipeline'],
    // constructors: positional arguments and options
    [['model', 'vision', 'name'], 'value', "torture.ts:34:24 exact 'vit_so400m_patch14_siglip_384'"],
    [['model', 'vision', 'imageSize'], 'value', 'torture.ts:34:70 exact 384'],
    [['model', 'vision'], 'key', 'torture.ts:34:5 exact vision'],
    [['model', 'language', 'source'], 'value', "torture.ts:36:24 exact 'org/lm'"],
    [['model', 'language', 'revision'], 'value', "torture.ts:36:46 exact 'abc'"],
    [['model', 'action', 'chunk'], 'value', 'torture.ts:37:61 exact 50'],
    [['hardware', 'gpu'], 'value', "torture.ts:40:18 exact 'H100-SXM-80GB'"],
    [['hardware', 'perNode'], 'value', 'torture.ts:40:46 exact 8'],
    [['hardware', 'hostMemory'], 'value', 'torture.ts:40:61 exact gib(128)'],
    [['launch', 0, 'partition'], 'value', "torture.ts:56:31 exact 'gpu'"],
    [['launch', 1], 'value', 'torture.ts:56:59 exact vla.torchrun()'],
    [['rules', 'VLA203', 'reason'], 'value', "torture.ts:57:28 exact 'measured'"],
    // arrays with spreads
    [['model', 'cameras', 1], 'value', "torture.ts:19:27 exact 'wrist'"],
    // factories: the argument, not the line that all calls share
    [['data', 0, 'from', 'root'], 'value', "torture.ts:39:18 exact 'data/a'"],
    [['data', 1, 'weight'], 'value', 'torture.ts:39:50 exact 1'],
    [['data', 1, 'cameras', 'wrist'], 'value', "torture.ts:27:54 exact 'observation.images.hand'"],
    [['data', 0, 'from', 'holdout', 1], 'value', 'torture.ts:25:45 exact 1'],
    [['modules', 'projector', 'lr'], 'value', 'torture.ts:43:23 exact 1e-4'],
    [['modules', 'projector', 'dtype'], 'value', "torture.ts:43:38 exact 'fp32'"],
    [['modules', 'projector', 'weightDecay'], 'value', 'torture.ts:20:98 exact 0.01'],
    // imported fragments, spreads of spreads, the last one wins
    [['modules', 'vision', 'lr'], 'value', 'fragments.ts:3:29 exact 2e-6'],
    [['modules', 'vision', 'dtype'], 'value', "fragments.ts:4:50 exact 'bf16'"],
    [['modules', 'vision', 'freeze', 'when'], 'value', "torture.ts:42:54 exact '75%'"],
    [['modules', 'vision', 'freeze', 'thenTrain', 'count'], 'value', 'torture.ts:42:61 exact 6'],
    [['modules', 'vision', 'freeze', 'rewarm'], 'value', 'fragments.ts:7:63 exact 100'],
    [['modules', 'language', 'lr'], 'value', 'fragments.ts:3:29 exact 2e-6'],
    [['modules', 'language', 'adapt', 'targets', 1], 'value', "fragments.ts:5:62 exact 'v_proj'"],
    // a condition: the branch whose literal is what ran
    [['modules', 'action', 'lr'], 'value', 'torture.ts:45:54 exact 5e-4'],
    // constants, destructuring, computed names, helpers
    [['training', 'updates'], 'value', 'torture.ts:48:14 exact UPDATES'],
    [['training', 'globalBatch'], 'value', 'torture.ts:21:47 exact 256'],
    [['training', 'clip'], 'value', 'torture.ts:50:12 exact 1.5'],
    [['training', 'schedule', 'warmup'], 'value', "torture.ts:52:46 exact '4%'"],
    [['training', 'schedule', 'floor'], 'value', 'fragments.ts:9:41 exact 0.1'],
    [['checkpoint', 'keep'], 'value', 'torture.ts:55:62 exact 2'],
    [['checkpoint', 'every'], 'value', 'torture.ts:55:38 exact 500'],
    // what cannot be read statically: the nearest ancestor, marked as such
    [['data', 2, 'weight'], 'value', 'torture.ts:39:3 near data'],
    [['training', 'seed'], 'value', 'torture.ts:47:3 near training'],
    [['training', 'skipNonFinite'], 'value', 'torture.ts:47:3 near training'],
    // what is not written
    [['modules', 'vision', 'storage'], 'value', 'torture.ts:42:5 near vision'],
    [['normalize', 'action'], 'value', 'torture.ts:30:16 near defineVLAPipeline'],
    [['hardware', 'nodes'], 'key', 'torture.ts:40:3 near hardware'],
  ]
  it.each(cases)('%j %s', async (path, at, expected) => {
    expect(await place(path, at)).toBe(expected)
  })
})

describe('a literal that is not what ran', () => {
  it('is never called exact', async () => {
    const changed = structuredClone(torture) as unknown as { checkpoint: { every: number } }
    changed.checkpoint.every = 900
    const [found] = await locate([finding(['checkpoint', 'every'])], { file, declaration: changed, root: folder })
    expect(found).toMatchObject({ line: 55, exact: false })
  })
})

describe('forms of the default export', () => {
  const forms: [name: string, text: string, expected: string][] = [
    [
      'a constant',
      `import { defineVLAPipeline } from 'vla-pipeline'\nconst p = defineVLAPipeline({ name: 'x' })\nexport default p\n`,
      '2:37',
    ],
    [
      'an export list',
      `import { defineVLAPipeline as d } from 'vla-pipeline'\nconst p = d({ name: 'x' })\nexport { p as default }\n`,
      '2:21',
    ],
    [
      'a config in a constant',
      `import { defineVLAPipeline } from 'vla-pipeline'\nconst c = { name: 'x' } as const\nexport default defineVLAPipeline(c satisfies object)\n`,
      '2:19',
    ],
    [
      'a namespace and await',
      `import * as vla from 'vla-pipeline'\nexport default await vla.defineVLAPipeline({ "name": ('x') })\n`,
      '2:54',
    ],
    ['a re-export', `export { default } from './torture.ts'\n`, '31:9'],
  ]
  it.each(forms)('%s', async (_, text, expected) => {
    const entry = `${folder}entry.ts`
    const read = (path: string): string | undefined =>
      path === entry ? text : path.endsWith('torture.ts') ? texts['torture.ts']?.join('\n') : undefined
    const name = text.includes('torture') ? 'torture' : 'x'
    const [found] = await locate([finding(['name'])], { file: entry, declaration: { name }, root: folder, read })
    expect(`${String(found?.line)}:${String(found?.column)}`).toBe(expected)
    expect(found?.exact).toBe(true)
  })

  it('something else entirely points at the export', async () => {
    const [found] = await locate([finding(['name'])], {
      file: `${folder}e.ts`,
      declaration: {},
      root: folder,
      read: () => 'const a = 1\nexport default JSON.parse("{}")\n',
    })
    expect(found).toMatchObject({ file: 'e.ts', line: 2, column: 1, exact: false })
  })

  it('a circle of names ends', async () => {
    const text = `import { defineVLAPipeline } from 'vla-pipeline'\nconst a = () => ({ ...b() })\nconst b = () => ({ ...a() })\nexport default defineVLAPipeline({ modules: a() })\n`
    const [found] = await locate([finding(['modules', 'vision'])], {
      file: `${folder}e.ts`,
      declaration: {},
      root: folder,
      read: (p) => (p.endsWith('/e.ts') ? text : undefined),
    })
    expect(found).toMatchObject({ line: 4, column: 36, exact: false })
  })
})

describe('a literal that several modules share', () => {
  it('is one diagnostic', async () => {
    const one = { ...finding(['modules', 'vision', 'lr']), message: 'vision.' }
    const two = { ...finding(['modules', 'language', 'lr']), message: 'language.' }
    const found = await locate([one, two], { file, declaration: torture, root: folder })
    expect(found.map(({ message, line }) => [message, line])).toEqual([['language.\nvision.', 3]])
  })
  it('but two findings near one place stay two', async () => {
    const near = [finding(['training', 'seed']), finding(['training', 'skipNonFinite'])]
    expect(await locate(near, { file, declaration: torture, root: folder })).toHaveLength(2)
  })
})

describe('without findings', () => {
  let loaded: unknown
  beforeAll(async () => {
    loaded = await locate([], { file: '/nowhere/pipeline.ts', declaration: undefined })
  })
  it('nothing is read', () => {
    expect(loaded).toEqual([])
  })
})
