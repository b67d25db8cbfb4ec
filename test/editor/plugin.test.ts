/** The plugin in a real tsserver, on a project as `vla init` makes it. Needs `npm run build`. */
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { vla } from '../cli/io.ts'
import { root } from '../types/project.ts'
import { TsServer, type CodeFix, type Shown } from './tsserver.ts'

let folder: string
let file: string
let server: TsServer
let text: string

beforeAll(async () => {
  folder = join(await realpath(await mkdtemp(join(tmpdir(), 'vla-editor-'))), 'robot')
  await vla(join(folder, '..'), ['init', 'robot', '--template', 'openvla-lora', '--yes', '--no-install', '--no-git'])
  await mkdir(join(folder, 'node_modules'))
  await symlink(root, join(folder, 'node_modules/vla-pipeline'))
  file = join(folder, 'pipeline.ts')
  text = await readFile(join(root, 'test/readme/pipeline.ts'), 'utf8')
  await writeFile(file, text)
  server = new TsServer(folder)
  server.tell('open', { file })
}, 60_000)

afterAll(async () => {
  await server.close()
  await rm(join(folder, '..'), { recursive: true, force: true })
}, 60_000)

const slow = { timeout: 600_000 }
const ours = (diagnostics: readonly Shown[]): Shown[] => diagnostics.filter(({ source }) => source === 'vla')
const codes = (diagnostics: readonly Shown[]): number[] => ours(diagnostics).map(({ code }) => code)

/** Puts a text into the buffer of the editor, which is not the file on disk. */
function type(before: string, after: string): void {
  const lines = before.split('\n')
  const end = { line: lines.length, offset: (lines.at(-1)?.length ?? 0) + 1 }
  const change = { start: { line: 1, offset: 1 }, end, newText: after }
  server.tell('updateOpen', { changedFiles: [{ fileName: file, textChanges: [change] }] })
}

/** A text with changes, whose places are lines and columns from 1. */
function apply(before: string, changes: CodeFix['changes'][number]['textChanges']): string {
  const lines = before.split('\n')
  const at = ({ line, offset }: { line: number; offset: number }): number =>
    lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + offset - 1
  return [...changes]
    .sort((a, b) => at(b.start) - at(a.start))
    .reduce((after, { start, end, newText }) => after.slice(0, at(start)) + newText + after.slice(at(end)), before)
}

it('shows the findings of the saved file in the words of vla check, each at its place', slow, async () => {
  const diagnostics = await server.shown(file, (all) => ours(all).length > 0)
  expect(codes(diagnostics).sort()).toEqual([201, 302, 602])
  const found = diagnostics.find(({ code }) => code === 302)
  expect(found).toMatchObject({
    start: { line: 14, offset: 13 },
    end: { line: 14, offset: 18 },
    category: 'error',
    source: 'vla',
    text: expect.stringMatching(
      /^VLA302: Under ddp, what trains of 'vision' changes at update 37,500\.\n\nwhy: .*\nfix: Use fsdp2\(\)/,
    ) as string,
    relatedInformation: [{ message: "the schedule of 'vision'", span: { start: { line: 10, offset: 33 } } }],
  })
  // What could not be looked at is no squiggle.
  expect(codes(await server.shown(file, (all) => ours(all).length > 0, 'suggestionDiag')).sort()).toEqual([20, 24])
})

it('offers the fix, and the finding vanishes with it', slow, async () => {
  const place = { file, startLine: 14, startOffset: 13, endLine: 14, endOffset: 18 }
  const fixes = (await server.ask('getCodeFixes', { ...place, errorCodes: [302] })) as CodeFix[]
  const fix = fixes.find(({ fixName }) => fixName === 'vla')
  expect(fix?.description).toBe('Use fsdp2()')
  expect(await server.ask('getSupportedCodeFixes', { file })).toContain('302')
  expect(fix?.changes.map(({ fileName }) => fileName)).toEqual([file])
  const fixed = apply(text, fix?.changes[0]?.textChanges ?? [])
  expect(fixed).toContain('parallel: fsdp2(),')
  type(text, fixed)
  // Not saved yet: what was checked is another text.
  expect(ours(await server.now(file))).toEqual([])
  await writeFile(file, fixed)
  const diagnostics = await server.shown(file, (all) => codes(all).length > 0)
  expect(codes(diagnostics)).toEqual([201])
  text = fixed
})

it('says nothing of a text that is not saved, and the same again when it is as it was', slow, async () => {
  const edited = `// a line more\n${text}`
  type(text, edited)
  expect(ours(await server.now(file))).toEqual([])
  type(edited, text)
  expect(codes(await server.now(file))).toEqual([201])
})

it('is not hurt by a file that throws, and does not wait for one that never ends', slow, async () => {
  const throws = text.replace('export default', `throw new Error('boom')\nexport default`)
  type(text, throws)
  await writeFile(file, throws)
  const [thrown] = ours(await server.shown(file, (all) => codes(all).length > 0))
  expect(thrown).toMatchObject({ code: 9, start: { line: 3 }, text: expect.stringContaining('boom') as string })

  const endless = text.replace('export default', `for (;;) await Promise.resolve()\nexport default`)
  type(throws, endless)
  await writeFile(file, endless)
  expect(ours(await server.now(file))).toEqual([])
  const info = (await server.ask('quickinfo', { file, line: 1, offset: 12 })) as { displayString: string }
  expect(info.displayString).not.toBe('')

  type(endless, text)
  await writeFile(file, text)
  expect(codes(await server.shown(file, (all) => codes(all).length > 0))).toEqual([201])
})

it('replaces the error of a type by the finding that says the same', slow, async () => {
  const wrong = text
    .replace('globalBatch: 250', 'globalBatch: 256')
    .replace('projector: { lr: 1e-4 }', `projector: { lr: 1e-4, recompute: 'full' }`)
  type(text, wrong)
  expect((await server.now(file)).map(({ code }) => code)).toEqual([2322])
  await writeFile(file, wrong)
  const diagnostics = await server.shown(file, (all) => codes(all).length > 0)
  expect(diagnostics.map(({ code }) => code)).toEqual([301])
})
