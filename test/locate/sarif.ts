/** The published JSON Schema of SARIF 2.1.0, as the package of Microsoft's SARIF SDK carries it. */
import { Ajv, type AnySchemaObject } from 'ajv'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
/** Draft 4 calls the schema's own name `id`; nothing else of it differs from what Ajv reads. */
const schema: AnySchemaObject = {
  ...(require('@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json') as AnySchemaObject),
  $schema: 'http://json-schema.org/draft-07/schema#',
}
Reflect.deleteProperty(schema, 'id')

const validate = new Ajv({
  strict: false,
  unicodeRegExp: false,
  allErrors: true,
  formats: {
    uri: (text: string) => URL.canParse(text),
    'uri-reference': (text: string) => URL.canParse(text, 'https://example.org/') && !/[\s\\]/.test(text),
    'date-time': true,
  },
}).compile(schema)

/** The parts of a log that the tests look at. */
export interface SarifLog {
  readonly version: string
  readonly runs: readonly [
    {
      readonly tool: { readonly driver: { readonly version: string; readonly rules: readonly SarifDescriptor[] } }
      readonly automationDetails: { readonly id: string }
      readonly invocations: readonly { readonly executionSuccessful: boolean; readonly exitCode: number }[]
      readonly results: readonly SarifResult[]
    },
  ]
}

interface SarifDescriptor {
  readonly id: string
  readonly defaultConfiguration: { readonly level: string }
  readonly help: { readonly text: string; readonly markdown: string }
}

interface Region {
  readonly startLine: number
  readonly startColumn: number
  readonly endLine: number
  readonly endColumn: number
}

interface SarifLocation {
  readonly physicalLocation: {
    readonly artifactLocation: { readonly uri: string; readonly uriBaseId?: string }
    readonly region: Region
  }
  readonly logicalLocations?: readonly { readonly fullyQualifiedName: string; readonly kind: string }[]
  readonly message?: { readonly text: string }
}

interface SarifResult {
  readonly ruleId: string
  readonly ruleIndex: number
  readonly level: string
  readonly message: { readonly text: string }
  readonly locations: readonly [SarifLocation]
  readonly relatedLocations?: readonly SarifLocation[]
  readonly partialFingerprints: Readonly<Record<string, string>>
  readonly fixes?: readonly {
    readonly description: { readonly text: string }
    readonly artifactChanges: readonly {
      readonly artifactLocation: { readonly uri: string }
      readonly replacements: readonly {
        readonly deletedRegion: Region
        readonly insertedContent: { readonly text: string }
      }[]
    }[]
  }[]
}

/** The log of a text; throws where it does not fit the schema. */
export function parseSarif(text: string): SarifLog {
  const log: unknown = JSON.parse(text)
  if (!validate(log)) throw new Error(JSON.stringify(validate.errors, null, 2))
  return log as SarifLog
}

/** What a reader of SARIF makes of a text: replacements from the last to the first. */
export function applyReplacements(
  text: string,
  replacements: readonly { readonly deletedRegion: Region; readonly insertedContent: { readonly text: string } }[],
): string {
  const lines = text.split('\n')
  const offset = (line: number, column: number): number =>
    lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1
  let result = text
  for (const { deletedRegion: region, insertedContent } of [...replacements].reverse()) {
    const start = offset(region.startLine, region.startColumn)
    const end = offset(region.endLine, region.endColumn)
    result = result.slice(0, start) + insertedContent.text + result.slice(end)
  }
  return result
}
