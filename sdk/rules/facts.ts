/** What several rules ask of a Plan. */
import type { Pipeline, PlanModule } from '../plan/plan.ts'

/** The phase of a module at an update: the last that has begun. Undefined before the first. */
export function phaseAt(module: PlanModule, update: number): PlanModule['freeze'][number] | undefined {
  return module.freeze.filter((phase) => phase.from <= update).at(-1)
}

/** Whether anything of the module (its adapters, where it has them) trains in some update of the run. */
export function everTrains(module: PlanModule, updates: number): boolean {
  return module.freeze.some((phase, index) => {
    const end = Math.min(module.freeze[index + 1]?.from ?? updates, updates)
    return phase.trains !== 'none' && phase.from < end
  })
}

/** The updates at which what trains may change, the first one included. */
export function boundaries(plan: Pipeline): number[] {
  const all = plan.modules
    .flatMap((module) => module.freeze.map((phase) => phase.from))
    .filter((from) => from < plan.training.updates)
  return [...new Set([0, ...all])].sort((a, b) => a - b)
}

/** `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'` */
export function listed(names: readonly string[]): string {
  const quoted = names.map((name) => `'${name}'`)
  return quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} and ${quoted.at(-1) ?? ''}`
}

/** `dimension 3`, `dimensions 3, 4 and 6`; counted from 0 as in the dataset. */
export function dimensions(indices: readonly number[]): string {
  const shown = indices.map(String)
  if (shown.length === 1) return `dimension ${shown.join('')}`
  return `dimensions ${shown.slice(0, -1).join(', ')} and ${shown.at(-1) ?? ''}`
}

/** A learning rate as one writes it: `2e-5`. */
export function rate(lr: number): string {
  return Number(lr.toPrecision(3)).toExponential()
}

/** `123.4 GiB` */
export function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`
}
