/**
 * A finding is data: what is wrong with a declaration, where, why and how to put it right.
 *
 * Every room reports through this shape and nothing throws for a finding. Positions in the user's file are added later, by `locate`.
 */

/** `error`: the run fails or is silently wrong. `warning`: it wastes money or quality. `info`: something could not be looked at. */
export type Severity = 'error' | 'warning' | 'info'

/** Where in the declaration, as the user wrote it: `['modules', 'vision', 'dtype']`. */
export type DeclarationPath = readonly (string | number)[]

/** A change of the declaration that puts a finding right; `locate` turns it into text edits. */
export type DeclarationEdit =
  | { readonly kind: 'set'; readonly path: DeclarationPath; readonly value: unknown }
  | { readonly kind: 'remove'; readonly path: DeclarationPath }
  | { readonly kind: 'renameKey'; readonly path: DeclarationPath; readonly to: string }

export interface Fix {
  readonly label: string
  /** `safe` fixes are applied by `--fix`; a `suggestion` needs a human choice. */
  readonly kind: 'safe' | 'suggestion'
  readonly edits: readonly DeclarationEdit[]
}

export interface Finding {
  /** Permanent rule id, `VLA101`. */
  readonly id: string
  readonly severity: Severity
  /** What is wrong, with the user's own values. */
  readonly message: string
  /** What happens when it is ignored. */
  readonly why: string
  /** What to do, with the numbers worked out. */
  readonly fix: string
  readonly path: DeclarationPath
  /** Whether the position points at the key or at the value of `path`. */
  readonly at: 'key' | 'value'
  readonly related: readonly { readonly path: DeclarationPath; readonly note: string }[]
  readonly fixes: readonly Fix[]
}
