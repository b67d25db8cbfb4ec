/** `vla rules`: all rules, or what became of them for one declaration. */
import { Command, Option } from 'commander'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { inspect, orUnloadable } from './inspect.ts'
import type { Inspected } from './inspect.ts'
import type { Io } from './io.ts'
import { paint, plural } from './style.ts'

interface Options {
  readonly area?: string
  readonly severity?: string
}

export function rulesCommand({ add }: Registrar): void {
  add(
    new Command('rules')
      .description(
        'list the rules; with a declaration, which of them looked, what they found, and which could not look',
      )
      .argument('[file]', 'a declaration, or its folder')
      .option('--area <area>', 'only those of an area, such as data or precision')
      .addOption(new Option('--severity <severity>', 'only those of a severity').choices(['error', 'warning', 'info'])),
    async (args, options, io) => orUnloadable(rules(args[0], options, io), { file: null, rules: [] }),
  )
}

const STATES = ['passed', 'found', 'unseen', 'off'] as const

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
  /** With a declaration: what became of it. `unseen`: it found nothing, and could not look at everything. */
  readonly state: (typeof STATES)[number] | null
  /** Why it could not look, or not everywhere. */
  readonly because: readonly string[]
}

async function rules(file: string | undefined, options: Options, io: Io): Promise<Outcome> {
  const { entries, ruleById } = await import('../rules/index.ts')
  const areas = [...new Set(entries.map(({ area }) => area))]
  if (options.area !== undefined && !areas.some((area) => area === options.area))
    throw new CannotDo(`There is no area ${options.area}.`, `Areas: ${areas.join(', ')}.`)
  const inspected = file === undefined ? undefined : await inspect(file, io)
  const listed = entries
    .filter(({ area }) => options.area === undefined || area === options.area)
    .filter(({ severity }) => options.severity === undefined || severity === options.severity)
    .map(({ id, name, area, severity, summary }): Listed => ({
      ...{ id, name, area, severity, summary },
      ...(inspected === undefined
        ? { findings: null, off: null, state: null, because: [] }
        : fate(id, ruleById(id) !== undefined, inspected)),
    }))
  const width = Math.max(0, ...listed.map(({ name }) => name.length))
  const lines = listed.map(
    (rule) => `${rule.id}  ${rule.severity.padEnd(7)}  ${rule.name.padEnd(width)}  ${told(rule)}`,
  )
  return {
    exit: EXIT.ok,
    data: { file: inspected?.file ?? null, rules: listed },
    text: lines.join('\n'),
    ...(inspected === undefined ? {} : { summary: totals(listed, io) }),
  }
}

/** @param isRule Whether the Plan is looked at; the other findings come from reading the declaration and the lock. */
function fate(
  id: string,
  isRule: boolean,
  inspected: Inspected,
): Pick<Listed, 'findings' | 'off' | 'state' | 'because'> {
  const { plan } = inspected
  const findings = inspected.findings.filter((finding) => finding.id === id).length
  const off = plan?.pipeline.suppressed.find(({ rule }) => rule === id)?.reason ?? null
  const because =
    isRule && plan === undefined ? ['the declaration has errors that leave no plan'] : (inspected.unseen.get(id) ?? [])
  const state = off !== null ? 'off' : findings > 0 ? 'found' : because.length > 0 ? 'unseen' : 'passed'
  return { findings, off, state, because }
}

function told({ summary, state, findings, off, because }: Listed): string {
  const reasons = because.map((reason) => reason.replace(/\.$/, '')).join('; ')
  switch (state) {
    case null:
      return summary
    case 'passed':
      return 'passed'
    case 'found':
      return `${plural(findings ?? 0, 'finding')}${reasons === '' ? '' : `; could not look everywhere: ${reasons}`}`
    case 'unseen':
      return `could not look: ${reasons}`
    case 'off':
      return `off: ${off ?? ''}`
  }
}

/** `72 passed, 2 with findings, 9 could not look, 1 off` */
function totals(listed: readonly Listed[], io: Io): string {
  const texts = { passed: 'passed', found: 'with findings', unseen: 'could not look', off: 'off' }
  const styles = { passed: 'green', found: 'red', unseen: 'yellow', off: 'dim' } as const
  const parts = STATES.flatMap((state) => {
    const count = listed.filter((rule) => rule.state === state).length
    return count === 0 ? [] : [paint(io, styles[state], `${String(count)} ${texts[state]}`)]
  })
  return `${plural(listed.length, 'rule')}: ${parts.join(', ')}`
}
