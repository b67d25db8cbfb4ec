/** Runs the rules over a Plan. */
import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { guardPlan, UnknownRead } from '../plan/guard.ts'
import { declarationPath, noteAt, type PlanPath } from '../plan/notes.ts'
import { isKnown, type Plan, type Unknown } from '../plan/plan.ts'
import { ruleById, rules } from './index.ts'
import type { Report, Rule, RuleContext } from './rule.ts'
import { unusedSuppression } from './reporting/vla090-unused-suppression.ts'
import { suppressionForbidden } from './reporting/vla091-suppression-forbidden.ts'
import { couldNotLook } from './reporting/vla092-could-not-look.ts'

interface Suppressed {
  readonly rule: string
  readonly reason: string
}

export interface RunOptions {
  /** Rules that the user switched off, with reasons; default: those of the Plan. */
  readonly suppressions?: readonly Suppressed[]
  /** What reading the declaration, the lock and the Plan have found already: their causes are not said again. */
  readonly reported?: readonly Finding[]
  /** The rules to run; default: all. */
  readonly rules?: readonly Rule[]
}

type Messages = Readonly<Record<string, string>>

/** What the rules say of a Plan, and where they could not look. */
export interface Verdict {
  readonly findings: readonly Finding[]
  /** Rule id -> why it could not look, or not everywhere; rules that saw all they need are not in it. */
  readonly unseen: ReadonlyMap<string, readonly string[]>
}

/** All findings of a Plan; see `lookAt`. */
export function runRules(plan: Plan, options: RunOptions = {}): Finding[] {
  return [...lookAt(plan, options).findings]
}

/**
 * All findings of a Plan, in a fixed order. Nothing throws for a broken Plan: a rule that would need a broken node ends there, since
 * that node has its finding already, and one that would need something the lock does not know is named in an information.
 */
export function lookAt(plan: Plan, options: RunOptions = {}): Verdict {
  const chosen = options.rules ?? rules
  // A list that could not be read switches nothing off; it has its finding.
  const declared: Plan['pipeline']['suppressed'] | Unknown = plan.pipeline.suppressed
  const suppressions = options.suppressions ?? (isKnown(declared) ? declared : [])
  const guarded = guardPlan(plan)
  const missing = new Map<string, Set<string>>()
  const blind = new Set<string>()
  const findings: Finding[] = []
  for (const rule of chosen) {
    const note = (read: UnknownRead): void => {
      blind.add(rule.id)
      const list = missing.get(read.because) ?? new Set<string>()
      missing.set(read.because, list.add(rule.id))
    }
    const context = contextOf(rule, guarded, findings, note)
    attempt(() => {
      rule.check(context)
    }, note)
  }
  const off = new Map(suppressions.map((suppression) => [suppression.rule, suppression.reason]))
  const kept = findings.filter((finding) => !(off.has(finding.id) && ruleById(finding.id)?.suppress.allowed === true))
  const about = [
    ...suppressionFindings(suppressions, findings, blind, chosen),
    ...unknownFindings(missing, options.reported ?? []),
  ]
  return { findings: [...kept, ...about].sort(compareFindings), unseen: reasons(missing) }
}

function reasons(missing: ReadonlyMap<string, ReadonlySet<string>>): Map<string, string[]> {
  const unseen = new Map<string, string[]>()
  for (const [because, ids] of missing)
    for (const id of ids) unseen.set(id, [...(unseen.get(id) ?? []), reasonText(because)])
  return unseen
}

/** `VLA005` alone names the finding that broke the value; after an id and a colon, and without one, the reason is a text. */
function reasonText(because: string): string {
  const [, cause, text] = /^(VLA\d{3})(?:: (.*))?$/s.exec(because) ?? []
  return cause === undefined ? because : (text ?? `the value has the finding ${cause}`)
}

function suppressionFindings(
  suppressions: readonly Suppressed[],
  findings: readonly Finding[],
  blind: ReadonlySet<string>,
  chosen: readonly Rule[],
): Finding[] {
  const found = new Set(findings.map((finding) => finding.id))
  return suppressions.flatMap(({ rule: id, reason }) => {
    const rule = chosen.find((candidate) => candidate.id === id)
    const say = (about: Rule, message: string, data: Record<string, string>): Finding => {
      const path = ['rules', id]
      const remove = {
        label: `Remove the suppression of ${id}`,
        kind: 'safe' as const,
        edits: [{ kind: 'remove' as const, path }],
      }
      return findingOf(
        about,
        { message, at: [], path, on: 'key', data: { rule: id, ...data }, fixes: [remove] },
        () => path,
      )
    }
    if (rule === undefined) return [say(suppressionForbidden, 'unknown', {})]
    if (!rule.suppress.allowed)
      return [say(suppressionForbidden, 'forbidden', { name: rule.name, because: rule.suppress.because })]
    if (reason.trim() === '') return [say(suppressionForbidden, 'withoutReason', {})]
    // A rule that could not look might have found something.
    return found.has(id) || blind.has(id) ? [] : [say(unusedSuppression, 'unused', { name: rule.name })]
  })
}

/** One information per thing that is not known, with the rules that would have needed it. */
function unknownFindings(missing: ReadonlyMap<string, ReadonlySet<string>>, reported: readonly Finding[]): Finding[] {
  return [...missing].flatMap(([because, ids]) => {
    const named = /^(VLA\d{3})(?:: (.*))?$/s.exec(because)
    const cause = named?.[1]
    const text = named === null ? because : named[2]
    // The id alone names a finding that has been made; with a text it names what the lock lacks, which may have been said too.
    if (text === undefined || reported.some((finding) => finding.id === cause)) return []
    const data = { because: text.replace(/\.$/, ''), rules: [...ids].sort().join(', ') }
    return [
      findingOf(couldNotLook, { message: cause === undefined ? 'undescribed' : 'missing', at: [], data }, () => []),
    ]
  })
}

function contextOf(
  rule: Rule,
  plan: Plan,
  findings: Finding[],
  note: (read: UnknownRead) => void,
): RuleContext<Messages> {
  const path = (place: PlanPath): DeclarationPath => declarationPath(plan, place)
  return {
    plan: plan.pipeline,
    path,
    declared: (place) => noteAt(plan, place)?.from === 'declared',
    origin: (place) => noteAt(plan, place)?.from,
    known<T>(value: T | Unknown): T {
      if (isKnown(value)) return value
      throw new UnknownRead(value.because)
    },
    each(items, look) {
      items.forEach((item, index) => {
        attempt(() => {
          look(item, index)
        }, note)
      })
    },
    report(report) {
      findings.push(findingOf(rule, report, path))
    },
  }
}

function findingOf(rule: Rule, report: Report<Messages>, path: (place: PlanPath) => DeclarationPath): Finding {
  const template = rule.messages[report.message]
  if (template === undefined) throw new Error(`${rule.id} has no message '${report.message}'`)
  const data = report.data as Readonly<Record<string, string | number>>
  const message = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = data[name]
    if (value === undefined) throw new Error(`${rule.id} gives no '${name}' for its message '${report.message}'`)
    return typeof value === 'number' ? formatNumber(value) : value
  })
  return {
    id: rule.id,
    severity: rule.severity,
    message,
    why: rule.why,
    fix: report.fix ?? rule.fix,
    path: report.path ?? path(report.at),
    at: report.on ?? 'value',
    related: (report.related ?? []).map((entry) => ({ path: entry.path ?? path(entry.at), note: entry.note })),
    fixes: report.fixes ?? [],
  }
}

function attempt(look: () => void, note: (read: UnknownRead) => void): void {
  try {
    look()
  } catch (error) {
    if (!(error instanceof UnknownRead)) throw error
    note(error)
  }
}

/** 50000 -> `50,000`; 0.00002 -> `0.00002`. */
function formatNumber(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString('en-US') : String(value)
}

/** By id, then by place, then by text: the same on every machine. */
function compareFindings(a: Finding, b: Finding): number {
  return compare(a.id, b.id) || compare(JSON.stringify(a.path), JSON.stringify(b.path)) || compare(a.message, b.message)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
