import { Ajv2020 } from 'ajv/dist/2020.js'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type Diagnostic, toReport } from '../../sdk/locate/diagnostic.ts'
import { diagnosticsSchemaFile } from '../../sdk/locate/schema-file.ts'
import { codeFrame, render, summary } from '../../sdk/locate/render.ts'

const TEXT = `export default defineVLAPipeline({\n  modules: {\n    language: { lr: 2e-5, dtype: 'bf16' },\n  },\n  hardware: gpus('T4'),\n})\n`

const diagnostic: Diagnostic = {
  id: 'VLA101',
  severity: 'error',
  message: 'bf16 is not supported on T4.',
  why: 'The kernels are missing.',
  fix: "Use 'fp32'.",
  path: ['modules', 'language', 'dtype'],
  at: 'value',
  file: 'pipeline.ts',
  line: 3,
  column: 34,
  endLine: 3,
  endColumn: 40,
  exact: true,
  related: [
    {
      path: ['hardware', 'gpu'],
      note: 'the GPU is named here',
      file: 'pipeline.ts',
      line: 5,
      column: 18,
      endLine: 5,
      endColumn: 22,
      exact: true,
    },
  ],
  fixes: [
    {
      label: "Use 'fp32'",
      kind: 'safe',
      edits: [{ kind: 'set', path: ['modules', 'language', 'dtype'], value: 'fp32' }],
      textEdits: [
        { file: 'pipeline.ts', start: TEXT.indexOf("'bf16'"), end: TEXT.indexOf("'bf16'") + 6, text: "'fp32'" },
      ],
      name: null,
    },
  ],
}
const options = { colour: false, read: () => TEXT, nameOf: () => 'dtype-unsupported-on-gpu' }
const plain = (file: string, text: string, line: number, column: number, end = column + 1): string[] =>
  codeFrame(text, { file, line, column, endLine: line, endColumn: end, exact: true }, (_, t) => t)

describe('the terminal form', () => {
  it('shows position, frame, related places, why, fix and how to learn more', () => {
    expect(render([diagnostic], options)).toBe(
      [
        'pipeline.ts:3:34 error VLA101 dtype-unsupported-on-gpu',
        '  bf16 is not supported on T4.',
        '',
        '  2 |   modules: {',
        "> 3 |     language: { lr: 2e-5, dtype: 'bf16' },",
        '    |                                  ^^^^^^',
        '  4 |   },',
        '',
        '  pipeline.ts:5:18 the GPU is named here',
        '  why: The kernels are missing.',
        "  fix: Use 'fp32'.",
        "  --fix  Use 'fp32'",
        "- 3 |     language: { lr: 2e-5, dtype: 'bf16' },",
        "+ 3 |     language: { lr: 2e-5, dtype: 'fp32' },",
        '  vla explain VLA101',
        '',
        '1 error (1 can be put right with --fix)',
        '',
      ].join('\n'),
    )
  })
  it('shows suggestions by their names, with the lines of every file, and none that cannot be applied', () => {
    const fixes: Diagnostic['fixes'] = [
      {
        ...{ label: 'Use T5', kind: 'suggestion', name: 'VLA101/2', edits: [] },
        textEdits: [
          { file: 'gpus.ts', start: 0, end: 0, text: 'new\n' },
          { file: 'pipeline.ts', start: TEXT.indexOf('T4'), end: TEXT.indexOf('T4') + 2, text: 'T5' },
        ],
      },
      { ...{ label: 'by hand', kind: 'suggestion', name: null, edits: [] }, textEdits: null },
    ]
    const text = render([{ ...diagnostic, fixes }], options)
    expect(text).toContain(
      [
        '  --fix-suggested VLA101/2  Use T5',
        '    gpus.ts',
        '+ 1 | new',
        "- 5 |   hardware: gpus('T4'),",
        "+ 5 |   hardware: gpus('T5'),",
        '  vla explain VLA101',
      ].join('\n'),
    )
    expect(text).not.toContain('by hand')
  })
  it('names the path where the position is only near', () => {
    expect(render([{ ...diagnostic, exact: false }], options)).toContain(
      'in modules.language.dtype, which is computed or not written',
    )
  })
  it('counts', () => {
    const unfixable = { ...diagnostic, fixes: [] }
    expect(
      summary(
        [diagnostic, unfixable, { ...unfixable, severity: 'warning' }, { ...unfixable, severity: 'info' }],
        options,
      ),
    ).toBe('2 errors, 1 warning, 1 note (1 can be put right with --fix)')
    expect(summary([], options)).toBe('no findings')
  })
  it('wraps', () => {
    const long = render([{ ...diagnostic, why: 'word '.repeat(60).trim() }], { ...options, width: 60 })
    expect(Math.max(...long.split('\n').map((line) => line.length))).toBeLessThanOrEqual(60)
  })
  it('colours only when asked', () => {
    expect(render([diagnostic], { ...options, colour: true })).toContain('\u001b[31merror')
    expect(render([diagnostic], options)).not.toContain('\u001b')
  })
  it('keeps control characters out of the terminal', () => {
    const text = render([{ ...diagnostic, message: 'a\u001b[2Jb\u202e' }], options)
    expect(text).toContain('a\\u001b[2Jb\\u202e')
  })
  it('does without the file', () => {
    expect(render([diagnostic], { ...options, read: () => undefined })).toContain('why: The kernels')
  })
})

describe('the code frame', () => {
  it('stands under tabs', () => {
    expect(plain('f', '\ta: 1', 1, 5, 6)).toEqual(['> 1 | \ta: 1', '    | \t   ^'])
  })
  it('ends with the line when the place goes on below', () => {
    expect(
      codeFrame('abc {\n}', { file: 'f', line: 1, column: 5, endLine: 2, endColumn: 2, exact: true }, (_, t) => t)[1],
    ).toBe('    |     ^')
  })
  it('cuts very long lines around the place', () => {
    const [, carets] = plain('f', 'x'.repeat(1000) + 'HERE' + 'y'.repeat(1000), 1, 1001, 1005)
    const [line] = plain('f', 'x'.repeat(1000) + 'HERE' + 'y'.repeat(1000), 1, 1001, 1005)
    expect(line?.slice(carets?.indexOf('^'), (carets?.indexOf('^') ?? 0) + 4)).toBe('HERE')
    expect(line?.length).toBeLessThan(180)
  })
})

describe('the JSON form', () => {
  it('fits the published schema', () => {
    const schema: unknown = JSON.parse(
      readFileSync(new URL('../../schemas/diagnostics.schema.json', import.meta.url), 'utf8'),
    )
    const validate = new Ajv2020({ strict: false }).compile(schema as object)
    const report = toReport([diagnostic])
    expect(validate(JSON.parse(JSON.stringify(report))), JSON.stringify(validate.errors)).toBe(true)
    expect(report.counts).toEqual({ error: 1, warning: 0, info: 0 })
    expect(validate({ ...report, more: 1 })).toBe(false)
  })
})

it('schemas/diagnostics.schema.json is fresh', () => {
  expect(readFileSync(new URL('../../schemas/diagnostics.schema.json', import.meta.url), 'utf8')).toBe(
    diagnosticsSchemaFile(),
  )
})
