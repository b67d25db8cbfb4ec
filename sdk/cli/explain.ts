/** `vla explain`: the page of a rule, offline. */
import { Command } from 'commander'
import { CannotDo } from '../python/errors.ts'
import type { Outcome, Registrar } from './command.ts'
import { EXIT } from './exit-codes.ts'
import type { Io } from './io.ts'

export function explainCommand({ add }: Registrar): void {
  add(
    new Command('explain')
      .description('print what a rule means, why it matters, how to put it right, and where that is known from')
      .argument('<id>', 'id of the rule, such as VLA101'),
    async (args, _options, io) => explain(args[0] ?? '', io),
  )
}

async function explain(argument: string, io: Io): Promise<Outcome> {
  const id = argument.toUpperCase().replace(/^(?:VLA)?(\d{3})$/, 'VLA$1')
  const [{ entryById, entries }, page] = await Promise.all([import('../rules/index.ts'), import('../rules/page.ts')])
  const entry = entryById(id)
  if (entry === undefined) {
    const near = entries.map((each) => each.id).filter((each) => each.startsWith(id.slice(0, 4)))
    throw new CannotDo(
      `There is no rule ${argument}.`,
      near.length === 0 ? 'vla rules lists all.' : `Did you mean ${near.slice(0, 5).join(', ')}? vla rules lists all.`,
    )
  }
  const { name, area, severity, since, summary, why, fix, suppress, sources } = entry
  const rule = { id, name, area, severity, since, summary, why, fix, suppress, sources }
  const text = page.explain(id, Math.min(io.stderr.columns, 100)) ?? ''
  return { exit: EXIT.ok, data: { rule, page: text }, text }
}
