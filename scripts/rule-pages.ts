/** The pages of docs/rules: file name -> text. */
import { format } from 'prettier'
import { BASE_HEAD, BASE_PIPELINE } from '../sdk/rules/base.ts'
import { entries } from '../sdk/rules/index.ts'
import { toMarkdown } from '../sdk/rules/page.ts'
import type { Example, RuleEntry } from '../sdk/rules/rule.ts'
import { coveragePage } from './coverage-page.ts'

const STYLE = { parser: 'typescript', singleQuote: true, semi: false, trailingComma: 'all', printWidth: 100 } as const

export async function rulePages(): Promise<Map<string, string>> {
  const pages = new Map<string, string>()
  for (const entry of entries) {
    const laidOut = new Map<string, string>()
    for (const code of codesOf(entry)) laidOut.set(code, await properties(code))
    for (const lock of locksOf(entry))
      laidOut.set(lock, (await format(lock, { ...STYLE, parser: 'json', objectWrap: 'collapse' })).trimEnd())
    pages.set(
      `${entry.id}.md`,
      toMarkdown(entry, (code) => laidOut.get(code) ?? code),
    )
  }
  pages.set('README.md', await index())
  pages.set('coverage.md', coveragePage())
  return pages
}

function examplesOf({ valid = [], invalid = [] }: RuleEntry): readonly Example[] {
  return [...valid, ...invalid]
}

function codesOf(entry: RuleEntry): string[] {
  return [...examplesOf(entry).map(({ code }) => code), `rules: { ${entry.id}: off('the reason') },`]
}

function locksOf(entry: RuleEntry): string[] {
  return examplesOf(entry).flatMap(({ lock }) => (lock === undefined ? [] : [JSON.stringify(lock, null, 2)]))
}

/** Lays out properties of an object literal as prettier would. */
async function properties(code: string): Promise<string> {
  const text = await format(`x({\n${code}\n})`, STYLE)
  return text
    .trimEnd()
    .split('\n')
    .slice(1, -1)
    .map((line) => line.replace(/^ {2}/, ''))
    .join('\n')
}

async function index(): Promise<string> {
  const base = await format(
    `${BASE_HEAD}\n\nexport default defineVLAPipeline({\n${Object.values(BASE_PIPELINE)
      .map((text) => `${text},`)
      .join('\n')}\n})`,
    STYLE,
  )
  const areas = [...new Set(entries.map(({ area }) => area))]
  const tables = areas.map((area) => {
    const rows = entries
      .filter((entry) => entry.area === area)
      .map(
        ({ id, name, severity, summary, suppress }) =>
          `| [${id}](${id}.md) | ${name} | ${severity} | ${summary.replaceAll('|', '\\|').replace(/[<>*_]/g, '\\$&')} | ${suppress.allowed ? 'yes' : 'no'} |`,
      )
    return `## ${area.charAt(0).toUpperCase()}${area.slice(1)}\n\n| id | name | severity | what must hold | can be switched off |\n|---|---|---|---|---|\n${rows.join('\n')}`
  })
  return `# Rules

Written by \`npm run rules\` from \`sdk/rules\`. \`vla explain VLA101\` prints a page in the terminal.

Every example is executed: an invalid one gives its rule's finding, a valid one none. Snippets show the properties that differ from this pipeline:

\`\`\`ts
${base.trimEnd()}
\`\`\`

[coverage.md](coverage.md) says what becomes of public reports, and of the checks that other trainers make.

A rule that can be switched off needs a reason: \`rules: { VLA203: off('the reason') }\`. The reason is listed in the plan and in the generated project.

${tables.join('\n\n')}
`
}
