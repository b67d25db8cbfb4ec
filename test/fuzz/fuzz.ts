/** Draws declarations, asks the oracles, and keeps the smallest declaration of each kind of problem. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { EmitContext } from '../../sdk/emit/emitted.ts'
import { writeDataset, writeWeights } from '../lock/fixtures.ts'
import { drawCase, shrink } from './cases.ts'
import { isLock, judgeProblems, type Case } from './judge.ts'
import { commandProblems, emitProblems, placeProblems } from './outputs.ts'
import { isCyclic } from './wild.ts'

/** How many cases of how many go through the slower oracles. */
const EVERY = { emit: 25, place: 25, command: 1_000 } as const

export interface Problem {
  readonly kind: string
  readonly count: number
  /** The smallest declaration that was found, and its lock. */
  readonly example: Case
}

export interface Report {
  readonly cases: number
  readonly problems: readonly Problem[]
}

/** Runs the oracles over `cases` declarations. */
export async function fuzz(cases: number, seed: number, context: EmitContext): Promise<Report> {
  const folder = project()
  const kinds = new Map<string, { count: number; example: Case }>()
  const note = (kind: string, example: Case): void => {
    const known = kinds.get(kind)
    const smaller = known === undefined || sizeOf(example) < sizeOf(known.example) ? example : known.example
    kinds.set(kind, { count: (known?.count ?? 0) + 1, example: smaller })
  }
  try {
    for (let index = 0; index < cases; index++) {
      const { given, d } = drawCase(seed, index)
      const writable = !isCyclic(given.declaration)
      const looks: (() => string[] | Promise<string[]>)[] = [
        () => judgeProblems(given),
        ...(index % EVERY.emit === 0 ? [() => emitProblems(given, context)] : []),
        ...(writable && index % EVERY.place === 1 ? [() => placeProblems(given, d)] : []),
        ...(writable && index % EVERY.command === 2 ? [() => commandProblems(given, folder, d)] : []),
      ]
      if (!isLock(given.lock)) note('the fuzz draws a lock that no file can hold', given)
      for (const look of looks) for (const kind of await answers(look)) note(kind, given)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const problems = [...kinds].map(([kind, { count, example }]) => ({ kind, count, example }))
  return { cases, problems: problems.sort((a, b) => b.count - a.count) }
}

async function answers(look: () => string[] | Promise<string[]>): Promise<string[]> {
  try {
    return [...new Set(await look())]
  } catch (error) {
    const { message, stack = '' } = error instanceof Error ? error : new Error(String(error))
    const at = /\((?:file:\/\/)?\S*?((?:sdk|test)\/\S+?):\d+:\d+\)|at (?:file:\/\/)?\S*?((?:sdk|test)\/\S+?):\d+/.exec(
      stack,
    )
    return [`throws at ${at?.[1] ?? at?.[2] ?? 'nowhere of ours'}: ${message.split('\n')[0]?.slice(0, 120) ?? ''}`]
  }
}

/** A folder with datasets and weights of the names that declarations use. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vla-fuzz-'))
  mkdirSync(join(folder, 'data'))
  writeDataset(join(folder, 'data/reach'))
  writeDataset(join(folder, 'data/arm_a'), { 'meta/stats.json': '{}' })
  writeWeights(join(folder, 'weights/llm'))
  writeWeights(join(folder, 'weights/tower'), { 'config.json': '[]' })
  return folder
}

function sizeOf({ declaration }: Case): number {
  return inspect(declaration, { depth: null, maxStringLength: null, maxArrayLength: null }).length
}

/** The report as text. */
export function told({ cases, problems }: Report, seed: number): string {
  const lines = problems.map(({ kind, count, example }) => {
    const { declaration, lock } = shrink(example, kind)
    const shown = inspect(
      { declaration, lock },
      { depth: null, maxStringLength: 80, maxArrayLength: 20, breakLength: 140 },
    )
    return `${String(count)} x ${kind}\n${shown}`
  })
  return [
    ...lines,
    `${String(cases)} declarations, seed ${String(seed)}: ${String(problems.length)} kinds of problems`,
  ].join('\n\n')
}
