/** The shell lines that a user puts before the launch (`slurm({ setup })`), as several rules read them. */
import type { DeclarationPath } from '../finding/finding.ts'
import type { Pipeline } from '../plan/plan.ts'

export interface SetupLine {
  readonly text: string
  /** The line's place, the same in the Plan and in the declaration. */
  readonly path: DeclarationPath
}

/** Every line of every launcher's setup, comments included. */
export function setupLines(plan: Pipeline): SetupLine[] {
  return plan.launch.flatMap((launch, index) =>
    launch.kind === 'slurm'
      ? launch.setup.map((text, line) => ({ text: text.trim(), path: ['launch', index, 'setup', line] }))
      : [],
  )
}

/** The commands of a line that the script's own shell runs: not those of comments, of strings or of a subshell in parentheses. */
export function commands(text: string): string[] {
  if (text.startsWith('#') || text.startsWith('(')) return []
  return text
    .replace(/'[^']*'|"[^"]*"/g, 'text')
    .split(/&&|\|\||[;|]/)
    .map((command) => command.trim())
    .filter((command) => command !== '')
}

/** The environment variables that a line sets, with their values without quotes. */
export function assignments(text: string): { readonly name: string; readonly value: string }[] {
  if (text.startsWith('#')) return []
  const pattern = /(?:^|[\s;&])([A-Z_][A-Z0-9_]*)=("[^"]*"|'[^']*'|[^\s;&]*)/g
  return [...text.matchAll(pattern)].map(([, name = '', value = '']) => ({
    name,
    value: value.replace(/^(["'])(.*)\1$/, '$2'),
  }))
}

/** The fix that takes a line out. */
export function withoutLine(
  path: DeclarationPath,
  label = 'Remove the line',
): {
  readonly label: string
  readonly kind: 'suggestion'
  readonly edits: readonly [{ readonly kind: 'remove'; readonly path: DeclarationPath }]
} {
  return { label, kind: 'suggestion', edits: [{ kind: 'remove', path }] }
}

/** Seconds of a Slurm time limit (`man sbatch`: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]). */
export function slurmSeconds(time: string): number {
  const dash = time.indexOf('-')
  const days = dash < 0 ? 0 : Number(time.slice(0, dash))
  const parts = time
    .slice(dash + 1)
    .split(':')
    .map(Number)
  const [hours = 0, minutes = 0, seconds = 0] = dash >= 0 || parts.length === 3 ? parts : [0, ...parts]
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
}
