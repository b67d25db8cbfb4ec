/** `vla rules`: all rules, or what they are for one declaration. */
import { Command } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { inspect, orUnloadable } from './inspect.ts'
import type { Io } from './io.ts'
import { plural } from './style.ts'

export function rulesCommand({ add }: Registrar): void {
  add(
    new Command('rules')
      .description('list the rules; with a declaration, also which of them it breaks and which it switches off')
      .argument('[file]', 'a declaration, or its folder'),
    async (args, _options, io) => orUnloadable(rules(args[0], io), { file: null, rules: [] }),
  )
}

interface Listed {
  readonly id: string
  readonly name: string
  readonly area: string
  readonly severity: string
  readonly summary: string
  /** With a declaration: how many findings it has. */
  readonly findings: number | null
  /** The reason for which the declaration switches it off. */
  readonly off: string | null
}

async function rules(file: string | undefined, io: Io): Promise<Outcome> {
  const { entries } = await import('../rules/index.ts')
  const inspected = file === undefined ? undefined : await inspect(file, io)
  const off = new Map(inspected?.plan?.pipeline.suppressed.map(({ rule, reason }) => [rule, reason]))
  const listed = entries.map(({ id, name, area, severity, summary }): Listed => ({
    ...{ id, name, area, severity, summary },
    findings: inspected === undefined ? null : inspected.findings.filter((finding) => finding.id === id).length,
    off: off.get(id) ?? null,
  }))
  const width = Math.max(...listed.map(({ name }) => name.length))
  const lines = listed.map(({ id, name, severity, summary, findings, off: reason }) => {
    const here =
      reason !== null
        ? `  off: ${reason}`
        : findings === null || findings === 0
          ? ''
          : `  ${plural(findings, 'finding')}`
    return `${id}  ${severity.padEnd(7)}  ${name.padEnd(width)}  ${summary}${here}`
  })
  return { exit: EXIT.ok, data: { file: inspected?.file ?? null, rules: listed }, text: lines.join('\n') }
}
