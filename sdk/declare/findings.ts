/** The findings that reading a declaration can give: their texts, in one place. */
import type { DeclarationPath, Finding, Fix } from '../finding/finding.ts'

/** What is fixed about a finding of this room. `message` and `fix` are worked out from the user's values. */
export interface DeclareRule {
  readonly title: string
  readonly why: string
}

export const declareRules = {
  VLA001: {
    title: 'Unknown module',
    why: 'The options would belong to no parameters, and the module that was meant would train with defaults.',
  },
  VLA002: {
    title: 'Unknown option',
    why: 'An option that nobody reads has no effect: the run would use a default in its place.',
  },
  VLA003: {
    title: 'Wrong value',
    why: 'The value has no meaning here, so the plan cannot say what to run.',
  },
  VLA004: {
    title: 'Missing option',
    why: 'Nothing stands in for it: every run needs a value here, and a guess could be silently wrong.',
  },
  VLA005: {
    title: 'Unknown GPU',
    why: 'Memory, dtypes and compute capability come from the catalog, by name.',
  },
  VLA006: {
    title: 'Unknown camera',
    why: 'The model has no such slot: the image would never be read.',
  },
  VLA007: {
    title: 'Text that cannot be written',
    why: 'NUL and lone surrogates cannot stand in a file, a command line or a JSON document: the generated project would not be what was declared.',
  },
  VLA008: {
    title: 'Name not allowed',
    why: 'The name becomes part of file names, Python keys and job names.',
  },
} as const satisfies Record<string, DeclareRule>

export type DeclareFindingId = keyof typeof declareRules

/** A finding of this room; all of them are errors. */
export function declareFinding(
  id: DeclareFindingId,
  path: DeclarationPath,
  at: 'key' | 'value',
  message: string,
  fix: string,
  offered?: Fix,
): Finding {
  const fixes = offered === undefined ? [] : [offered]
  return { id, severity: 'error', message, why: declareRules[id].why, fix, path, at, related: [], fixes }
}

/** Renames a misspelled key: safe, since what was written means nothing. */
export function renameFix(path: DeclarationPath, to: string): Fix {
  return { label: `Rename '${String(path.at(-1))}' to '${to}'`, kind: 'safe', edits: [{ kind: 'renameKey', path, to }] }
}

/** Puts another value in place: a suggestion, since it may not be the one that was meant. */
export function setFix(path: DeclarationPath, value: string): Fix {
  return { label: `Use '${value}'`, kind: 'suggestion', edits: [{ kind: 'set', path, value }] }
}
