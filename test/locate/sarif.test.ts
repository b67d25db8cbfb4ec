import { describe, expect, it } from 'vitest'
import type { Diagnostic } from '../../sdk/locate/diagnostic.ts'
import { sarifLog, type SarifOptions } from '../../sdk/locate/sarif.ts'
import { applyReplacements, parseSarif } from './sarif.ts'

const TEXT = `// é 🤖\nexport default defineVLAPipeline({\n  training: { globalBatch: 13 },\n})\n`
const value = TEXT.indexOf('13')

const diagnostic: Diagnostic = {
  id: 'VLA201',
  severity: 'error',
  message: 'A batch of 13 cannot be made.',
  why: 'Some would wait.',
  fix: 'Use 16.',
  path: ['training', 'globalBatch'],
  at: 'value',
  file: 'pipeline.ts',
  line: 3,
  column: 28,
  endLine: 3,
  endColumn: 30,
  exact: true,
  related: [
    {
      ...{ path: ['data', 0], note: '2 processes', file: '/else/where.ts' },
      ...{ line: 5, column: 18, endLine: 5, endColumn: 22, exact: true },
    },
  ],
  fixes: [
    {
      label: 'globalBatch: 16',
      kind: 'suggestion',
      name: 'VLA201/1',
      edits: [],
      textEdits: [
        { file: 'pipeline.ts', start: value, end: value + 2, text: '16' },
        { file: 'pipeline.ts', start: 0, end: 0, text: '// first\n' },
      ],
    },
    { label: 'by hand', kind: 'suggestion', name: null, edits: [], textEdits: null },
  ],
}
const options: SarifOptions = {
  version: '1.2.3',
  file: 'pipeline.ts',
  rules: (['VLA101', 'VLA201'] as const).map((id) => ({
    ...{ id, name: 'a-name', severity: 'warning', area: 'training', summary: 'Must hold.', why: 'Why.' },
    help: { text: 'page', markdown: '# page' },
  })),
  uriOf: (file) => (file.startsWith('/') ? `file://${file}` : `robots/${file}`),
  read: () => TEXT,
  exitCode: 4,
  successful: true,
}
const log = (diagnostics: readonly Diagnostic[]) => parseSarif(sarifLog(diagnostics, options)).runs[0]

describe('the log', () => {
  it('names each rule with its level and page, also without a finding', () => {
    const run = log([])
    expect(run.results).toEqual([])
    expect(run.tool.driver).toMatchObject({
      name: 'vla',
      version: '1.2.3',
      rules: [{ id: 'VLA101' }, { id: 'VLA201', defaultConfiguration: { level: 'warning' }, help: { text: 'page' } }],
    })
    expect(run.invocations).toEqual([{ executionSuccessful: true, exitCode: 4 }])
    expect(run.automationDetails.id).toBe('vla-check/robots/pipeline.ts/')
  })
  it('has the exact region, below the root of the repository, and the path of the declaration', () => {
    const [result] = log([diagnostic]).results
    expect(result).toMatchObject({
      ruleId: 'VLA201',
      ruleIndex: 1,
      level: 'error',
      message: { text: 'A batch of 13 cannot be made. Use 16.' },
      locations: [
        {
          physicalLocation: {
            artifactLocation: { uri: 'robots/pipeline.ts', uriBaseId: '%SRCROOT%' },
            region: { startLine: 3, startColumn: 28, endLine: 3, endColumn: 30 },
          },
          logicalLocations: [{ fullyQualifiedName: 'training.globalBatch', kind: 'property' }],
        },
      ],
      relatedLocations: [
        {
          physicalLocation: { artifactLocation: { uri: 'file:///else/where.ts' } },
          logicalLocations: [{ fullyQualifiedName: 'data[0]', kind: 'value' }],
          message: { text: '2 processes' },
        },
      ],
    })
    expect(result?.relatedLocations?.[0]?.physicalLocation.artifactLocation).not.toHaveProperty('uriBaseId')
  })
  it('names no folder of this machine', () => {
    expect(sarifLog([{ ...diagnostic, related: [] }], options)).not.toContain(process.cwd())
  })
  it('says where a place is only near', () => {
    const [near] = log([{ ...diagnostic, exact: false }]).results
    expect(near?.locations[0].message?.text).toContain('in training.globalBatch, which is computed')
    const [whole] = log([{ ...diagnostic, exact: false, path: [] }]).results
    expect(whole?.locations[0]).not.toHaveProperty('logicalLocations')
  })
  it('has fixes that a reader can apply, from the first to the last, and none that it cannot', () => {
    const [result] = log([diagnostic]).results
    expect(result?.fixes).toHaveLength(1)
    const [fix] = result?.fixes ?? []
    expect(fix?.description.text).toBe('globalBatch: 16')
    expect(fix?.artifactChanges.map(({ artifactLocation }) => artifactLocation.uri)).toEqual(['robots/pipeline.ts'])
    expect(applyReplacements(TEXT, fix?.artifactChanges[0]?.replacements ?? [])).toBe(
      `// first\n${TEXT.replace('13', '16')}`,
    )
    expect(log([{ ...diagnostic, fixes: diagnostic.fixes.slice(1) }]).results[0]).not.toHaveProperty('fixes')
  })
})

describe('fingerprints', () => {
  const prints = (diagnostics: readonly Diagnostic[]): string[] =>
    log(diagnostics).results.map(({ partialFingerprints }) => partialFingerprints['vlaDeclarationPath/v1'] ?? '')
  it('stay when lines and messages move', () => {
    expect(prints([{ ...diagnostic, line: 30, endLine: 30, message: 'other' }])).toEqual(prints([diagnostic]))
  })
  it('differ by rule, file and path', () => {
    const all = prints([
      diagnostic,
      { ...diagnostic, id: 'VLA101' },
      { ...diagnostic, file: 'other.ts' },
      { ...diagnostic, path: ['training', 'microBatch'] },
    ])
    expect(new Set(all).size).toBe(4)
  })
  it('count several of one rule at one place', () => {
    const [first = '', second = ''] = prints([diagnostic, diagnostic])
    expect([first.slice(-2), second.slice(-2)]).toEqual([':1', ':2'])
    expect(second.slice(0, -2)).toBe(first.slice(0, -2))
  })
})
