/** What an import has to say: what LeRobot did with a setting, what becomes of it here, and what is wrong with the configuration. */

/**
 * - `ignored`: LeRobot takes the setting and does nothing with it.
 * - `changed`: LeRobot does something else than the setting says, or something that nobody said, without a word.
 * - `differs`: this pipeline does it otherwise than LeRobot.
 * - `dropped`: nothing here corresponds to it.
 * - `assumed`: the configuration does not say it.
 */
export type RemarkKind = 'ignored' | 'changed' | 'differs' | 'dropped' | 'assumed'

export interface Remark {
  readonly kind: RemarkKind
  /** Field of lerobot-train's configuration: 'policy.optimizer_lr'. */
  readonly field: string
  readonly message: string
  /** Where that is known from: a file of LeRobot 0.6.1, and what in it. Null for what was assumed. */
  readonly source: string | null
}

/** Something that cannot be imported. */
export interface ImportProblem {
  readonly field: string
  readonly message: string
  readonly fix: string
}

/** Collects both. */
export class Ledger {
  readonly remarks: Remark[] = []
  readonly problems: ImportProblem[] = []

  /** Notes what LeRobot did, or what this pipeline does otherwise. */
  note(kind: Exclude<RemarkKind, 'assumed'>, field: string, message: string, source: string): void {
    this.remarks.push({ kind, field, message, source })
  }

  /** Notes what the configuration leaves open. */
  assume(field: string, message: string): void {
    this.remarks.push({ kind: 'assumed', field, message, source: null })
  }

  /** Notes what stands in the way. */
  refuse(field: string, message: string, fix: string): void {
    this.problems.push({ field, message, fix })
  }
}

const order: readonly RemarkKind[] = ['ignored', 'changed', 'differs', 'dropped', 'assumed']

/** In the order of their kinds, then as they came. */
export function sorted(remarks: readonly Remark[]): Remark[] {
  return remarks.toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind))
}

/** One line each, without wrapping. */
export function remarkText({ kind, field, message, source }: Remark): string {
  return `${kind}: ${field}: ${message}${source === null ? '' : ` (${source})`}`
}
