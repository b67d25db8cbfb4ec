/** `vla explain`: the page of a rule, offline. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Command } from 'commander'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import { packageFolder } from './package.ts'

export function explainCommand({ add }: Registrar): void {
  add(
    new Command('explain')
      .description('print what a rule means, why it matters, how to put it right, and where that is known from')
      .argument('<id>', 'id of the rule, such as VLA101'),
    async (args) => explain(args[0] ?? ''),
  )
}

async function explain(argument: string): Promise<Outcome> {
  const id = argument.toUpperCase().replace(/^(?:VLA)?(\d{3})$/, 'VLA$1')
  const { entryById, entries } = await import('../rules/index.ts')
  const entry = entryById(id)
  const page = join(packageFolder, 'docs/rules', `${id}.md`)
  if (entry === undefined || !existsSync(page)) {
    const near = entries.map((each) => each.id).filter((each) => each.startsWith(id.slice(0, 5)))
    throw new CannotDo(`There is no rule ${argument}.`, near.length === 0 ? 'vla rules lists all.' : `Did you mean ${near.slice(0, 5).join(', ')}? vla rules lists all.`)
  }
  const text = await readFile(page, 'utf8')
  const { name, area, severity, since, summary, why, fix, suppress, sources } = entry
  return { exit: EXIT.ok, data: { rule: { id, name, area, severity, since, summary, why, fix, suppress, sources }, page: text }, text }
}
