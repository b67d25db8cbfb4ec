/**
 * The form of a rule. One file holds everything about it: what it says, why, how to put it right, where that is known from, examples
 * that tests execute, and the check.
 *
 * Ids are permanent and never used again. A rule sees the Plan and the catalog, never the user's objects; it names places of the Plan
 * and the runner turns them into places of the declaration.
 */
import type { DeclarationEdit, DeclarationPath, Severity } from '../finding/finding.ts'
import type { PlanPath } from '../plan/notes.ts'
import type { Note, Pipeline, Unknown } from '../plan/plan.ts'

type RuleArea =
  | 'reporting'
  | 'precision'
  | 'training'
  | 'sharding'
  | 'freezing'
  | 'adapters'
  | 'data'
  | 'model'
  | 'policies'
  | 'memory'
  | 'outputs'
  | 'launch'
  | 'tracking'

/** Where what the rule says is known from. */
interface Source {
  readonly title: string
  /** A page, or `package/path/to/file.py` of a pinned version. */
  readonly at: string
  /** Section, function or line in it. */
  readonly locator?: string
}

/**
 * Properties of `defineVLAPipeline({ … })` that replace those of the base pipeline (sdk/rules/base.ts). Tests send the whole through
 * declare, resolve and all rules.
 */
export interface Example {
  readonly caption: string
  readonly code: string
  /** Merged into the base pipeline's lock as a JSON merge patch (RFC 7396): null removes. */
  readonly lock?: MergePatch
  /** Ids of other findings that this example gives as well. */
  readonly also?: readonly string[]
}

export type MergePatch =
  null | string | number | boolean | readonly MergePatch[] | { readonly [key: string]: MergePatch }

/** Certain and silent failures cannot be suppressed. */
type Suppression =
  | { readonly allowed: true; /** When it is right to. */ readonly when: string }
  | { readonly allowed: false; readonly because: string }

/** What a rule's page says; ids that other rooms report have such an entry without a check. */
export interface RuleEntry {
  readonly id: string
  /** `dtype-unsupported-on-gpu` */
  readonly name: string
  readonly area: RuleArea | 'declaration' | 'lock'
  readonly severity: Severity
  readonly since: string
  /** One sentence: what must hold. */
  readonly summary: string
  /** What happens when it is ignored. */
  readonly why: string
  /** How to put it right, in general. */
  readonly fix: string
  readonly suppress: Suppression
  readonly sources: readonly Source[]
  /** Declarations without the finding, and with it; missing where no declaration alone gives it. */
  readonly valid?: readonly Example[]
  readonly invalid?: readonly Example[]
}

export interface Rule extends RuleEntry {
  readonly area: RuleArea
  readonly messages: Readonly<Record<string, string>>
  readonly valid: readonly Example[]
  readonly invalid: readonly Example[]
  readonly check: (context: RuleContext<Record<string, string>>) => void
}

/** The names in braces of a message. */
type Parameters<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Parameters<Rest>
  : never

export type Report<Messages extends Readonly<Record<string, string>>> = {
  [Id in keyof Messages & string]: {
    readonly message: Id
    /** Place in the Plan; shown where the user said it. */
    readonly at: PlanPath
    /** Place in the declaration, where it is more exact than what the Plan's notes know. */
    readonly path?: DeclarationPath
    readonly on?: 'key' | 'value'
    readonly data: { readonly [Name in Parameters<Messages[Id]>]: string | number }
    /** What to do here, with the numbers worked out; default: the rule's `fix`. */
    readonly fix?: string
    readonly related?: readonly { readonly at: PlanPath; readonly path?: DeclarationPath; readonly note: string }[]
    readonly fixes?: readonly {
      readonly label: string
      readonly kind: 'safe' | 'suggestion'
      readonly edits: readonly DeclarationEdit[]
    }[]
  }
}[keyof Messages & string]

export interface RuleContext<Messages extends Readonly<Record<string, string>>> {
  readonly plan: Pipeline
  /** Where the user said a value of the Plan, or would say it. */
  readonly path: (place: PlanPath) => DeclarationPath
  /** Whether the value stands in the declaration as it is. */
  readonly declared: (place: PlanPath) => boolean
  /** Where the value comes from; a share of the run that the user wrote is 'derived'. */
  readonly origin: (place: PlanPath) => Note['from'] | undefined
  /** A value that the Plan may not know. Where it does not, the check (or the current item of `each`) ends here. */
  readonly known: <T>(value: T | Unknown) => T
  /** Looks at each item; one whose values are unknown does not keep the others from being looked at. */
  readonly each: <T>(items: readonly T[], look: (item: T, index: number) => void) => void
  readonly report: (report: Report<Messages>) => void
}

/** Makes a rule. Message ids and the values that their texts need are checked by the compiler. */
export function defineRule<const Messages extends Readonly<Record<string, string>>>(
  rule: Omit<Rule, 'messages' | 'check'> & {
    readonly messages: Messages
    readonly check: (context: RuleContext<Messages>) => void
  },
): Rule {
  // The runner hands every rule a context that checks ids and values at run time too.
  return rule
}
