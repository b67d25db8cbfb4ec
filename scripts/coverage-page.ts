/** docs/rules/coverage.md: what the project says to public reports and to the checks of other trainers. */
import { peerRows, reportRows, type PeerRow, type ReportRow } from '../test/rules/reports/table.ts'

type Row = ReportRow | PeerRow

const MEANING = {
  caught: 'a rule finds it before launch',
  impossible: 'what is emitted cannot do it, which a test shows',
  waits: 'for a technique that a declaration cannot express yet',
  'not visible': 'nothing in a declaration shows it',
} as const satisfies Record<Row['state'], string>

export function coveragePage(): string {
  const [reports, peers] = [reportRows(), peerRows()]
  const shown = (rows: readonly Row[]): string =>
    Object.keys(MEANING)
      .map((state) => rows.filter((row) => row.state === state).length)
      .join(' | ')
  return `# Coverage

Written by \`npm run rules\` from \`test/rules/reports\`, whose rows \`test/rules/coverage.test.ts\` runs: the declaration of each caught report gives that rule and no other error, and put right it gives none.

| | ${Object.keys(MEANING).join(' | ')} |
|---|${Object.keys(MEANING)
    .map(() => '--:|')
    .join('')}
| public reports | ${shown(reports)} |
| checks of other trainers | ${shown(peers)} |

${Object.entries(MEANING)
  .map(([state, meaning]) => `- *${state}*: ${meaning}`)
  .join('\n')}

## Public reports

| report | what happened | state | how |
|---|---|---|---|
${reports.map((row) => `| [${row.id}](${row.url}) | ${cell(row.title)} | ${row.state} | ${how(row)} |`).join('\n')}

## Checks of other trainers

| trainers | what they refuse or change | state | how |
|---|---|---|---|
${peers.map((row) => `| ${row.peers.join(', ')} (${cell(`\`${row.at}\``)}) | ${cell(row.title)}${row.falseAlarm === undefined ? '' : ` *False alarm:* ${cell(row.falseAlarm)}`} | ${row.state} | ${how(row)} |`).join('\n')}
`
}

function how(row: Row): string {
  switch (row.state) {
    case 'caught':
      return `[${row.rule}](${row.rule}.md)`
    case 'impossible':
      return `${cell(row.by)} \`${row.shown.file}\`: ${cell(row.shown.name)}`
    case 'waits':
      return `for ${cell(row.for)}`
    case 'not visible':
      return cell(row.why)
  }
}

/** Text as a table's cell: nothing in it is markup but code. */
function cell(text: string): string {
  return text
    .replaceAll('|', String.raw`\|`)
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replace(/[*<>_]/g, String.raw`\$&`)))
    .join('')
}
