/** Classes of which condemned mutants survive, each with the reason. Everything else has to be caught. */
import { survivors, type Outcome } from './mutate.ts'

const REASONS: Readonly<Record<string, string>> = {
  'cameras swapped': 'Both are pictures of the same data: only the pixels tell which is which.',
  'dataset misspelled':
    'What is on the hub is not looked at; an information says so, and the preflight fails in its first seconds.',
  'prompt cut off': 'The tokens of a pretrained tokenizer are counted where it runs: the preflight does.',
  'more layers than there are':
    'How many blocks pretrained weights have stands in their config, which the lock lacks here; an information says so.',
}

/** Why a condemned mutant of a class may survive. */
export function reasonOf({ of }: Outcome): string | undefined {
  return REASONS[of.name]
}

/** Survivors that nobody has explained. */
export function unexplained(outcomes: readonly Outcome[]): Outcome[] {
  return survivors(outcomes).filter((outcome) => reasonOf(outcome) === undefined)
}
