/** What zod says about a value, as findings. */
import type * as z from 'zod'

import type { DeclarationPath, Finding } from '../finding/finding.ts'
import { declareFinding, renameFix, setFix } from './findings.ts'
import { constructorOf, keysAt, pathText, showValue, valueAt } from './plain.ts'
import { suggest } from './suggest.ts'

type Issue = z.core.$ZodIssue

/** What zod's default message is where a schema has none of its own. */
const silent = 'Invalid input'

interface UnionDefinition {
  readonly shape?: object
  readonly options?: readonly {
    readonly _zod: { readonly propValues?: Readonly<Record<string, ReadonlySet<unknown>>> }
  }[]
}

/**
 * Two messages carry what zod's issues do not: the keys that an object knows, and the kinds that a union of constructors (or the values
 * that another option that decides between several shapes) knows, each separated by blanks.
 */
export const errorMap: z.core.$ZodErrorMap = (issue) => {
  const definition = (issue.inst as { _zod: { def: UnionDefinition } } | undefined)?._zod.def
  if (issue.code === 'unrecognized_keys') {
    return Object.keys(definition?.shape ?? {})
      .filter((key) => key !== 'kind')
      .join(' ')
  }
  if (issue.code === 'invalid_union' && 'discriminator' in issue) {
    const key = String(issue.discriminator)
    const values = (definition?.options ?? []).flatMap((option) => [...(option._zod.propValues?.[key] ?? [])])
    return values
      .filter((value) => value !== undefined)
      .map(String)
      .join(' ')
  }
  return issue.code === 'invalid_union' ? silent : undefined
}

/** The branch of a union that the user most likely meant: one that got past the root, with the fewest complaints. */
function likelyBranch(branches: readonly (readonly Issue[])[]): readonly Issue[] | undefined {
  const atRoot = (issues: readonly Issue[]): boolean =>
    issues.some((issue) => issue.path.length === 0 && issue.code !== 'unrecognized_keys')
  const wrongKind = (issues: readonly Issue[]): boolean =>
    issues.some((issue) => issue.path.length === 1 && issue.path[0] === 'kind')
  const candidates = branches.filter((issues) => issues.length > 0 && !atRoot(issues) && !wrongKind(issues))
  return [...candidates].sort((a, b) => a.length - b.length)[0]
}

const types: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'an object',
  record: 'an object',
}

/** What a schema wanted, in words. */
function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return types[issue.expected] ?? issue.expected
    case 'invalid_value':
      return issue.values.map((value) => showValue(value)).join(' or ')
    case 'too_small':
      if (issue.origin === 'string') return 'a text that is not empty'
      if (issue.origin === 'array')
        return issue.minimum === 1 ? 'a list that is not empty' : `a list of at least ${String(issue.minimum)}`
      return issue.inclusive === true ? `at least ${String(issue.minimum)}` : `more than ${String(issue.minimum)}`
    case 'too_big':
      if (issue.origin === 'array') return `a list of at most ${String(issue.maximum)}`
      return issue.inclusive === true ? `at most ${String(issue.maximum)}` : `less than ${String(issue.maximum)}`
    default:
      return issue.message.replace(/^expected /, '')
  }
}

function wrongValue(path: DeclarationPath, value: unknown, expected: string): Finding {
  const message = `${pathText(path) || 'The pipeline'} is ${showValue(value)}.`
  return declareFinding('VLA003', path, 'value', message, `Expected ${expected}.`)
}

/** The finding about a value that is none of some texts, with the one that it may have been meant to be. */
function meant(finding: Finding, value: unknown, allowed: readonly string[]): Finding {
  const near = typeof value === 'string' ? suggest(value, allowed) : undefined
  return near === undefined
    ? finding
    : { ...finding, fix: `Did you mean '${near}'?`, fixes: [setFix(finding.path, near)] }
}

function missing(path: DeclarationPath): Finding {
  const key = String(path.at(-1) ?? '')
  const place = pathText(path.slice(0, -1)) || 'The pipeline'
  return declareFinding('VLA004', path, 'value', `${place} has no '${key}'.`, `Add '${key}'.`)
}

function unknownOptions(issue: Issue & { code: 'unrecognized_keys' }, path: DeclarationPath, root: unknown): Finding[] {
  const taken = keysAt(root, path)
  const free = issue.message.split(' ').filter((name) => name !== '' && !taken.includes(name))
  return issue.keys.map((key) => {
    const near = suggest(key, free)
    const others = free.map((name) => `'${name}'`).join(', ')
    return declareFinding(
      'VLA002',
      [...path, key],
      'key',
      `${pathText(path) || 'A pipeline'} has no option '${key}'.`,
      near === undefined
        ? others === ''
          ? 'Remove it.'
          : `Remove it, or use one of ${others}.`
        : `Did you mean '${near}'?`,
      near === undefined ? undefined : renameFix([...path, key], near),
    )
  })
}

function wrongUnion(issue: Issue & { code: 'invalid_union' }, path: DeclarationPath, root: unknown): Finding[] {
  const value = valueAt(root, path)
  if ('discriminator' in issue && issue.discriminator !== 'kind') {
    const allowed = issue.message.split(' ')
    return [meant(wrongValue(path, value, allowed.map((one) => showValue(one)).join(' or ')), value, allowed)]
  }
  if ('discriminator' in issue) {
    // The path ends at `kind`; what is wrong for the user is the whole value.
    const whole = path.slice(0, -1)
    const constructors = issue.message.split(' ').map((kind) => `${constructorOf(kind)}(...)`)
    return [wrongValue(whole, valueAt(root, whole), constructors.join(' or '))]
  }
  if (value === undefined) return [missing(path)]
  if (issue.message !== silent) {
    const branch = likelyBranch(issue.errors)
    return branch?.flatMap((inner) => toFindings(inner, root, path)) ?? [wrongValue(path, value, expectation(issue))]
  }
  const branch = likelyBranch(issue.errors)
  if (branch !== undefined) return branch.flatMap((inner) => toFindings(inner, root, path))
  const options = issue.errors.flat().filter((inner) => inner.path.length === 0)
  return [wrongValue(path, value, [...new Set(options.map(expectation))].join(', or '))]
}

/** One issue as findings. `base` is the path of the schema that raised it. */
function toFindings(issue: Issue, root: unknown, base: DeclarationPath): Finding[] {
  const path = [...base, ...(issue.path as (string | number)[])]
  if (issue.code === 'unrecognized_keys') return unknownOptions(issue, path, root)
  if (issue.code === 'invalid_union') return wrongUnion(issue, path, root)
  if (issue.code === 'invalid_key') {
    const message = `${showValue(path.at(-1))} is not a rule's id.`
    return [declareFinding('VLA003', path, 'key', message, "Write the id of a rule, such as 'VLA101'.")]
  }
  const value = valueAt(root, path)
  if (value === undefined) return [missing(path)]
  const finding = wrongValue(path, value, expectation(issue))
  if (issue.code !== 'invalid_value') return [finding]
  const allowed = issue.values.filter((one) => typeof one === 'string')
  return [meant(finding, value, allowed)]
}

/** All that zod found wrong with `root`. What is missing because its name is misspelled is said once, at the misspelled name. */
export function issueFindings(issues: readonly Issue[], root: unknown): Finding[] {
  const findings = issues.flatMap((issue) => toFindings(issue, root, []))
  const renamed = findings.flatMap(({ fixes }) =>
    fixes.flatMap(({ edits }) =>
      edits.flatMap((edit) =>
        edit.kind === 'renameKey' ? [JSON.stringify([...edit.path.slice(0, -1), edit.to])] : [],
      ),
    ),
  )
  return findings.filter(({ id, path }) => id !== 'VLA004' || !renamed.includes(JSON.stringify(path)))
}
