/**
 * Diagnostics as SARIF 2.1.0, the interchange format of static analysis (OASIS). Read by GitHub code scanning and by editors.
 *
 * The text is the same on every machine: file names are relative to the root of the repository (`%SRCROOT%`), which is not itself named.
 */
import { createHash } from 'node:crypto'
import type { Diagnostic, LocatedFix, Position, TextEdit } from './diagnostic.ts'
import { lineAndColumn } from './lines.ts'
import { nearText, pathText } from './text.ts'

/** A rule as SARIF describes it. */
export interface SarifRule {
  readonly id: string
  readonly name: string
  readonly severity: Diagnostic['severity']
  readonly area: string
  readonly summary: string
  readonly why: string
  /** The rule's page. */
  readonly help: { readonly text: string; readonly markdown: string }
}

export interface SarifOptions {
  /** Of vla. */
  readonly version: string
  /** All rules that can report. */
  readonly rules: readonly SarifRule[]
  /** The declaration, as named in the diagnostics. */
  readonly file: string
  /** URI of a file as named in the diagnostics: relative to the root of the repository, or absolute for one outside of it. */
  readonly uriOf: (file: string) => string
  /** Text of a file as named in the diagnostics. */
  readonly read: (file: string) => string | undefined
  /** What the process exits with, and whether it did its job. */
  readonly exitCode: number
  readonly successful: boolean
}

const LEVEL = { error: 'error', warning: 'warning', info: 'note' } as const
const SCHEMA = 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json'

/** The log of one run, ending with a newline. */
export function sarifLog(diagnostics: readonly Diagnostic[], options: SarifOptions): string {
  const { version, rules, uriOf, file } = options
  const indexOf = new Map(rules.map(({ id }, index) => [id, index]))
  const fingerprint = fingerprints(uriOf)
  const log = {
    version: '2.1.0',
    $schema: SCHEMA,
    runs: [
      {
        tool: { driver: { name: 'vla', version, semanticVersion: version, rules: rules.map(descriptor) } },
        // Runs over several declarations of one repository stay apart: consumers replace the results of a run of the same id.
        automationDetails: { id: `vla-check/${uriOf(file)}/` },
        originalUriBaseIds: { '%SRCROOT%': { description: { text: 'The root of the repository.' } } },
        columnKind: 'utf16CodeUnits',
        invocations: [{ executionSuccessful: options.successful, exitCode: options.exitCode }],
        results: diagnostics.map((diagnostic) => ({
          ruleId: diagnostic.id,
          ruleIndex: indexOf.get(diagnostic.id),
          level: LEVEL[diagnostic.severity],
          message: { text: `${diagnostic.message} ${diagnostic.fix}` },
          locations: [location(diagnostic, options)],
          ...(diagnostic.related.length === 0
            ? {}
            : {
                relatedLocations: diagnostic.related.map((entry, id) => ({
                  id,
                  ...location(entry, options),
                  message: { text: entry.note },
                })),
              }),
          partialFingerprints: { 'vlaDeclarationPath/v1': fingerprint(diagnostic) },
          ...fixes(diagnostic.fixes, options),
          properties: { exact: diagnostic.exact },
        })),
      },
    ],
  }
  return `${JSON.stringify(log, null, 2)}\n`
}

function descriptor({ id, name, severity, area, summary, why, help }: SarifRule): object {
  return {
    id,
    name,
    shortDescription: { text: summary },
    fullDescription: { text: why },
    help,
    defaultConfiguration: { level: LEVEL[severity] },
    properties: { tags: [area] },
  }
}

type Placed = Position & { readonly path: Diagnostic['path'] }

/** The region of the text, and the path of the declaration as the logical place. */
function location(placed: Placed, { uriOf }: SarifOptions): object {
  const { path, file, line, column, endLine, endColumn, exact } = placed
  const last = path.at(-1)
  return {
    physicalLocation: {
      artifactLocation: artifact(uriOf(file)),
      region: { startLine: line, startColumn: column, endLine, endColumn },
    },
    ...(last === undefined
      ? {}
      : {
          logicalLocations: [
            {
              name: String(last),
              fullyQualifiedName: pathText(path),
              kind: typeof last === 'number' ? 'value' : 'property',
            },
          ],
        }),
    ...(exact || last === undefined ? {} : { message: { text: nearText(path) } }),
  }
}

function artifact(uri: string): object {
  return /^[a-z]+:/.test(uri) ? { uri } : { uri, uriBaseId: '%SRCROOT%' }
}

/** Safe fixes and suggestions that can be made without a person; left out where there is none. */
function fixes(all: readonly LocatedFix[], options: SarifOptions): object {
  const made = all.flatMap(({ label, textEdits }) => {
    if (textEdits === null || textEdits.length === 0) return []
    const files = [...new Set(textEdits.map(({ file }) => file))]
    const artifactChanges = files.map((file) => {
      const text = options.read(file) ?? ''
      const own = textEdits.filter((edit) => edit.file === file).sort((a, b) => a.start - b.start)
      return {
        artifactLocation: artifact(options.uriOf(file)),
        replacements: own.map((edit) => replacement(edit, text)),
      }
    })
    return [{ description: { text: label }, artifactChanges }]
  })
  return made.length === 0 ? {} : { fixes: made }
}

/** An insertion is a region of length 0. */
function replacement({ start, end, text: inserted }: TextEdit, text: string): object {
  const from = lineAndColumn(text, start)
  const to = lineAndColumn(text, end)
  return {
    deletedRegion: { startLine: from.line, startColumn: from.column, endLine: to.line, endColumn: to.column },
    insertedContent: { text: inserted },
  }
}

/**
 * What makes a result the same one after other lines have come and gone: rule, file and path of the declaration. Several of one rule at
 * one path are counted.
 */
function fingerprints(uriOf: (file: string) => string): (diagnostic: Diagnostic) => string {
  const seen = new Map<string, number>()
  return ({ id, file, path }) => {
    const key = createHash('sha256')
      .update(JSON.stringify([id, uriOf(file), path]))
      .digest('hex')
      .slice(0, 32)
    const count = (seen.get(key) ?? 0) + 1
    seen.set(key, count)
    return `${key}:${String(count)}`
  }
}
