/** `vla plan`: what a declaration means, with every default and choice. */
import { Command } from 'commander'
import type { Outcome, Registrar } from './command.ts'
import { inspect, located, orUnloadable, verdict } from './inspect.ts'
import type { Io } from './io.ts'

export function planCommand({ add }: Registrar): void {
  add(
    new Command('plan')
      .description('print what a declaration means: every effective value beside the declared one, with its reason')
      .argument('[file]', 'the declaration, or its folder (default: pipeline.ts)'),
    async (args, _options, io) => orUnloadable(plan(args[0], io), { file: null, plan: null, lockWritten: false }),
  )
}

async function plan(file: string | undefined, io: Io): Promise<Outcome> {
  const inspected = await inspect(file, io)
  const diagnostics = await located(inspected, io)
  const made = inspected.plan
  const { planText } = await import('./plan-text.ts')
  return {
    exit: verdict(inspected.findings, undefined),
    data: { file: inspected.file, plan: made ?? null, lockWritten: inspected.lockWritten },
    diagnostics,
    ...(made === undefined ? {} : { text: planText(made, inspected.declaration, { color: false }) }),
  }
}
