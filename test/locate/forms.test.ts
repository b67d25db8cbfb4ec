/** Every way of writing one value, and where it is found. «» marks the place that is expected; the markers are cut before reading. */
import { describe, expect, it } from 'vitest'
import type { Finding } from '../../sdk/finding/finding.ts'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { locate } from '../../sdk/locate/locate.ts'

const HEAD = `import { defineVLAPipeline } from 'vla-pipeline'\n`
/** A pipeline with something before it, and something as its modules. */
const modules = (text: string, before = ''): string =>
  `${HEAD}${before}\nexport default defineVLAPipeline({\n  name: 'x',\n  modules: ${text},\n})\n`

type Files = Readonly<Record<string, string>>
type Form = readonly [name: string, pipeline: string, others?: Files]

const exact: readonly Form[] = [
  ['a literal', modules(`{ vision: { lr: «2e-5» } }`)],
  ['a quoted key', modules(`{ 'vision': { "lr": «2e-5» } }`)],
  ['a literal in wrappers', modules(`({ vision: { lr: «2e-5» } as const } satisfies object)`)],
  ['a constant: its name', modules(`{ vision: { lr: «LR» } }`, `const LR = 2e-5`)],
  ['a shorthand', modules(`{ vision: { «lr» } }`, `const lr = 2e-5`)],
  ['a variable: its name', modules(`{ vision: { lr: «rate» } }`, `let rate = 2e-5\nrate *= 1`)],
  ['an expression', modules(`{ vision: { lr: «2 * 1e-5» } }`)],
  ['a value from the environment', modules(`{ vision: { lr: «Number(process.env['LR'] ?? 2e-5)» } }`)],
  ['a member of something', modules(`{ vision: { lr: «rates.vision» } }`, `const rates = { vision: 2e-5 }`)],
  ['a condition between values', modules(`{ vision: { lr: «big ? 1e-5 : 2e-5» } }`, `const big = false`)],
  ['a condition between objects', modules(`{ vision: big ? { lr: 1e-5 } : { lr: «2e-5» } }`, `const big = false`)],
  ['an object in a constant', modules(`{ vision }`, `const vision = { lr: «2e-5» }`)],
  ['a constant of a constant', modules(`{ vision: b }`, `const a = { lr: «2e-5» }\nconst b = a`)],
  ['taken apart', modules(`{ vision }`, `const { vision } = { vision: { lr: «2e-5» } }`)],
  ['a spread', modules(`{ vision: { ...base } }`, `const base = { lr: «2e-5» }`)],
  [
    'a spread of a spread',
    modules(`{ vision: { ...b } }`, `const a = { lr: «2e-5» }\nconst b = { ...a, dtype: 'bf16' }`),
  ],
  ['what a spread overrides', modules(`{ vision: { lr: 1, ...base } }`, `const base = { lr: «2e-5» }`)],
  ['what overrides a spread', modules(`{ vision: { ...base, lr: «2e-5» } }`, `const base = { lr: 1 }`)],
  ['a spread on a condition', modules(`{ vision: { lr: 1, ...(big && { lr: «2e-5» }) } }`, `const big = true`)],
  ['Object.assign', modules(`{ vision: Object.assign({ lr: 1 }, { lr: «2e-5» }) }`)],
  ['a key in a constant', modules(`{ vision: { [key]: «2e-5» } }`, `const key = 'lr'`)],
  ['a helper of a package', modules(`{ vision: copy({ lr: «2e-5» }) }`, `import { copy } from 'somewhere'`)],
  ['a method', modules(`{ vision: base.with({ lr: «2e-5» }) }`, `import { base } from 'somewhere'`)],
  ['a fallback', modules(`{ vision: given ?? { lr: «2e-5» } }`, `const given = undefined`)],
  ['a helper of the file', modules(`{ vision: same({ lr: «2e-5» }) }`, `const same = <T>(x: T): T => x`)],
  ['a factory: the argument', modules(`{ vision: make(«2e-5») }`, `const make = (lr: number) => ({ lr })`)],
  [
    'a factory with options',
    modules(`{ vision: make({ lr: «2e-5» }) }`, `const make = ({ lr }: { lr: number }) => ({ lr })`),
  ],
  ['a factory with a default', modules(`{ vision: make() }`, `const make = (lr = «2e-5») => ({ lr })`)],
  ['a factory: its own line', modules(`{ vision: make() }`, `const make = () => ({ lr: «2e-5» })`)],
  [
    'a factory that is a function',
    modules(
      `{ vision: make(«2e-5») }`,
      `function make(lr: number) {\n  const dtype = 'bf16'\n  return { dtype, lr }\n}`,
    ),
  ],
  [
    'a factory of a factory',
    modules(
      `{ vision: outer(«2e-5») }`,
      `const inner = (lr: number) => ({ lr })\nconst outer = (rate: number) => inner(rate)`,
    ),
  ],
  [
    'a spread factory',
    modules(`{ vision: { ...make(«2e-5»), dtype: 'bf16' } }`, `const make = (lr: number) => ({ lr })`),
  ],
  [
    'an imported fragment',
    modules(`{ vision: { ...base } }`, `import { base } from './parts.ts'`),
    { 'parts.ts': `export const base = { lr: «2e-5» }\n` },
  ],
  [
    'an imported default',
    modules(`{ vision }`, `import vision from './parts.ts'`),
    { 'parts.ts': `const vision = { lr: «2e-5» }\nexport default vision\n` },
  ],
  [
    'an import under another name, without an extension',
    modules(`{ vision: mine }`, `import { base as mine } from './parts'`),
    { 'parts.ts': `export const base = { lr: «2e-5» }\n` },
  ],
  [
    'an import through an index',
    modules(`{ vision: base }`, `import { base } from './parts/index.js'`),
    { 'parts/index.ts': `export * from './base.ts'\n`, 'parts/base.ts': `export const base = { lr: «2e-5» }\n` },
  ],
  [
    'an imported factory: the argument',
    modules(`{ vision: make(«2e-5») }`, `import { make } from './parts.ts'`),
    { 'parts.ts': `export const make = (lr: number) => ({ lr })\n` },
  ],
  [
    'an imported factory: its own line',
    modules(`{ vision: make('bf16') }`, `import { make } from './parts.ts'`),
    { 'parts.ts': `export function make(dtype: string) {\n  return { lr: «2e-5», dtype }\n}\n` },
  ],
  [
    'the whole declaration elsewhere',
    `${HEAD}import { config } from './parts.ts'\nexport default defineVLAPipeline(config)\n`,
    { 'parts.ts': `export const config = { modules: { vision: { lr: «2e-5» } } }\n` },
  ],
]

/** Nobody can say from the text where the value stands: the nearest ancestor, marked as such. */
const near: readonly Form[] = [
  ['what is not written', modules(`{ «vision»: { dtype: 'bf16' } }`)],
  ['a computed key', modules(`{ «vision»: { ['l' + 'r']: 2e-5 } }`)],
  [
    'entries',
    `${HEAD}export default defineVLAPipeline({\n  «modules»: Object.fromEntries([['vision', { lr: 2e-5 }]]),\n})\n`,
  ],
  [
    'what was written into an object',
    `${HEAD}const all: any = {}\nall.vision = { lr: 2e-5 }\nexport default defineVLAPipeline({ «modules»: all })\n`,
  ],
  [
    'a JSON file',
    modules(`{ «vision»: { ...base } }`, `import base from './base.json' with { type: 'json' }`),
    { 'base.json': '{ "lr": 2e-5 }' },
  ],
  ['a literal that did not run', modules(`{ vision: copy({ lr: «1» }) }`, `import { copy } from 'somewhere'`)],
  [
    'a function with two ends',
    modules(
      `{ «vision»: make() }`,
      `function make() {\n  if (Date.now() > 0) return { lr: 2e-5 }\n  return { lr: 1 }\n}`,
    ),
  ],
]

interface Marked {
  readonly texts: Map<string, string>
  readonly place: string
}

/** Cuts the markers; the place as `file:line:column text`. */
function unmark(pipeline: string, others: Files = {}): Marked {
  const texts = new Map<string, string>()
  let place = ''
  for (const [name, marked] of Object.entries({ 'pipeline.ts': pipeline, ...others })) {
    const start = marked.indexOf('«')
    const text = marked.replace(/[«»]/g, '')
    texts.set(`/p/${name}`, text)
    if (start < 0) continue
    const before = text.slice(0, start)
    const column = start - before.lastIndexOf('\n')
    place = `${name}:${String(before.split('\n').length)}:${String(column)} ${marked.slice(start + 1, marked.indexOf('»'))}`
  }
  return { texts, place }
}

const PATH = ['modules', 'vision', 'lr']
const declaration = { name: 'x', modules: { vision: { lr: 2e-5 } } }

async function found(texts: ReadonlyMap<string, string>, changes: Partial<Finding> = {}): Promise<Diagnostic> {
  const finding: Finding = {
    ...{
      id: 'VLA101',
      severity: 'error',
      message: '',
      why: '',
      fix: '',
      path: PATH,
      at: 'value',
      related: [],
      fixes: [],
    },
    ...changes,
  }
  const [diagnostic] = await locate([finding], {
    file: '/p/pipeline.ts',
    declaration,
    root: '/p',
    read: (path) => texts.get(path),
  })
  if (diagnostic === undefined) throw new Error('no diagnostic')
  return diagnostic
}

function shown(
  texts: ReadonlyMap<string, string>,
  at: Pick<Diagnostic, 'file' | 'line' | 'column' | 'endLine' | 'endColumn'>,
): string {
  expect(at.endLine).toBe(at.line)
  const line = texts.get(`/p/${at.file}`)?.split('\n')[at.line - 1] ?? ''
  return `${at.file}:${String(at.line)}:${String(at.column)} ${line.slice(at.column - 1, at.endColumn - 1)}`
}

describe('found exactly', () => {
  it.each(exact.map(([name, ...files]) => ({ name, files })))('$name', async ({ files }) => {
    const { texts, place } = unmark(...files)
    const diagnostic = await found(texts)
    expect([shown(texts, diagnostic), diagnostic.exact]).toEqual([place, true])
    expect(diagnostic.path).toEqual(PATH)
  })
})

describe('found nearby, and marked as such', () => {
  it.each(near.map(([name, ...files]) => ({ name, files })))('$name', async ({ files }) => {
    const { texts, place } = unmark(...files)
    const diagnostic = await found(texts)
    expect([shown(texts, diagnostic), diagnostic.exact]).toEqual([place, false])
    expect(diagnostic.path).toEqual(PATH)
  })
})

describe('related places', () => {
  const all = [
    ...exact.map(([name, ...files]) => ({ name, files, isExact: true })),
    ...near.map(([name, ...files]) => ({ name, files, isExact: false })),
  ]
  it.each(all)('$name (exact: $isExact)', async ({ files, isExact }) => {
    const { texts, place } = unmark(...files)
    const { related } = await found(texts, { path: ['name'], related: [{ path: PATH, note: 'here' }] })
    expect(related.map((entry) => [shown(texts, entry), entry.exact, entry.note])).toEqual([[place, isExact, 'here']])
  })
})
