/** The plan for people: every value that will hold, beside what was declared, with the reason. */
import { noteAt, valueAt } from '../plan/notes.ts'
import { isKnown } from '../plan/plan.ts'
import type { Plan } from '../plan/plan.ts'
import type { Io } from './io.ts'
import { paint } from './style.ts'

interface Row {
  readonly depth: number
  readonly name: string
  /** Empty for a heading. */
  readonly effective: string
  readonly declared: string
  readonly reason: string
  readonly open: boolean
}

/** Longest value that is printed whole. */
const VALUE_WIDTH = 44

/**
 * Lines of `path  effective  declared  reason`; headings for what has parts.
 *
 * @param declaration What the user exported; what they wrote stands beside what it became.
 */
export function planText(plan: Plan, declaration: unknown, io: Pick<Io, 'color'>): string {
  const rows = rowsOf(plan, declaration)
  const nameWidth = Math.max(...rows.map((row) => row.depth * 2 + row.name.length))
  const valueWidth = Math.max(...rows.map((row) => row.effective.length), 'effective'.length)
  const declaredWidth = Math.max(...rows.map((row) => row.declared.length), 'declared'.length)
  const head = `${''.padEnd(nameWidth)}  ${'effective'.padEnd(valueWidth)}  ${'declared'.padEnd(declaredWidth)}  reason`
  const lines = rows.map((row) => {
    const name = `${'  '.repeat(row.depth)}${row.name}`
    if (row.effective === '') return paint(io, 'bold', name)
    const effective = row.effective.padEnd(valueWidth)
    const text = `${name.padEnd(nameWidth)}  ${row.open ? paint(io, 'yellow', effective) : effective}  ${row.declared.padEnd(declaredWidth)}  ${paint(io, 'dim', row.reason)}`
    return text.trimEnd()
  })
  return [
    `${paint(io, 'bold', plan.pipeline.name)}  plan ${plan.hash.slice(0, 8)}`,
    '',
    paint(io, 'dim', head),
    ...lines,
    '',
  ].join('\n')
}

function rowsOf(plan: Plan, declaration: unknown): Row[] {
  const rows: Row[] = []
  const walk = (value: unknown, place: readonly (string | number)[], name: string, depth: number): void => {
    const leaf = leafText(value)
    if (leaf === undefined) {
      rows.push({ depth, name, effective: '', declared: '', reason: '', open: false })
      for (const [key, child] of Object.entries(value as object)) {
        const index = Array.isArray(value) ? Number(key) : key
        walk(child, [...place, index], labelOf(child, key, Array.isArray(value)), depth + 1)
      }
      return
    }
    const note = noteAt(plan, place)
    const said = note === undefined ? undefined : valueAt(declaration, note.path)
    rows.push({
      depth,
      name,
      effective: leaf,
      declared: said === undefined || (typeof said === 'object' && said !== null) ? '' : cut(scalarText(said)),
      reason: note === undefined || note.from === 'declared' ? '' : note.reason,
      open: !isKnown(value as never),
    })
  }
  for (const [key, value] of Object.entries(plan.pipeline)) walk(value, [key], key, 0)
  return rows
}

/** Items of lists go by their name where they have one: `modules > vision`, not `modules > 0`. */
function labelOf(item: unknown, key: string, inList: boolean): string {
  if (!inList) return key
  const { name, kind } = (typeof item === 'object' && item !== null ? item : {}) as { name?: unknown; kind?: unknown }
  if (typeof name === 'string') return name
  return typeof kind === 'string' ? kind : `[${key}]`
}

/** A value on one line; undefined for what is shown part by part. */
function leafText(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return cut(scalarText(value))
  if (!isKnown(value as never)) return cut(`unknown: ${(value as { because: string }).because}`)
  if (Array.isArray(value)) {
    if (value.some((item) => typeof item === 'object' && item !== null && !Array.isArray(item))) return undefined
    const text = `[${value.map(scalarText).join(', ')}]`
    if (value.length < 3) return cut(text)
    return text.length <= VALUE_WIDTH
      ? text
      : `[${value.slice(0, 2).map(scalarText).map(cut).join(', ')}, ... ${String(value.length)}]`
  }
  return Object.keys(value).length === 0 ? '{}' : undefined
}

function scalarText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null) return 'none'
  if (typeof value === 'number' && Number.isInteger(value)) return value.toLocaleString('en-US')
  return JSON.stringify(value)
}

function cut(text: string): string {
  const line = text.replaceAll('\n', '\\n')
  return line.length <= VALUE_WIDTH ? line : `${line.slice(0, VALUE_WIDTH - 3)}...`
}
