/** lerobot-train's command line as the nested object that its configuration file would be. */
import { parse } from 'yaml'

import type { Ledger } from './remarks.ts'

/** Flags, nested: `--policy.type=act` is `{ policy: { type: 'act' } }`. Values are as YAML reads them, as in LeRobot (draccus). */
export type Nested = Record<string, unknown>

/** What the flags say, and the files that they name. */
export interface ReadFlags {
  readonly values: Nested
  /** `--config_path`. */
  readonly configPath: string | undefined
  readonly launcher: Launcher
}

/** What the words before lerobot-train's own name say, where a whole command was pasted: `accelerate launch --num_processes=2`. */
interface Launcher {
  readonly processes: number | undefined
  readonly nodes: number | undefined
  /** accelerate's `--mixed_precision`. */
  readonly mixedPrecision: string | undefined
}

const trainer = /(?:^|[/.\s])lerobot[-_]train(?:\.py)?\)?$|(?:^|[/\\])train\.py$|\.scripts\.train$/

/**
 * Reads `--a.b=c`, `--a.b c`, or a whole command with its launcher. Whatever is no flag is a problem, and so is one without a value.
 */
export function readFlags(command: readonly string[], ledger: Ledger): ReadFlags {
  const values: Nested = {}
  let configPath: string | undefined
  const pasted = command[0]?.startsWith('-') === false
  const program = pasted ? command.findIndex((word) => trainer.test(word)) : -1
  // Of a command whose program has another name, that name alone is skipped.
  const args = pasted ? command.slice(Math.max(program, 0) + 1) : command
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? ''
    const match = /^--([A-Za-z_][\w.]*)(?:=(.*))?$/s.exec(arg)
    if (match === null) {
      ledger.refuse(arg, `'${arg}' is no flag of lerobot-train.`, 'Write flags as --name=value.')
      continue
    }
    const [, path = '', inline] = match
    let value = inline
    const next = args[index + 1]
    if (value === undefined && next !== undefined && !next.startsWith('--')) {
      value = next
      index++
    }
    if (value === undefined) {
      ledger.refuse(path, `--${path} has no value.`, `Write --${path}=value.`)
      continue
    }
    if (path === 'config_path') configPath = value
    else set(values, path.split('.'), scalar(value), path, ledger)
  }
  return { values, configPath, launcher: readLauncher(command.slice(0, Math.max(program, 0))) }
}

/** `accelerate launch` counts all processes, `torchrun` those of one node. */
function readLauncher(words: readonly string[]): Launcher {
  const said = (name: string): string | undefined => {
    for (const [index, word] of words.entries()) {
      const [option = '', value] = word.split('=')
      if (option.replaceAll('-', '_') === `__${name}`) return value ?? words[index + 1]
    }
    return undefined
  }
  const count = (name: string): number | undefined => {
    const text = said(name)
    return text !== undefined && /^[1-9]\d*$/.test(text) ? Number(text) : undefined
  }
  const nodes = count('num_machines') ?? count('nnodes')
  const perNode = count('nproc_per_node')
  return {
    processes: count('num_processes') ?? (perNode && perNode * (nodes ?? 1)),
    nodes,
    mixedPrecision: said('mixed_precision'),
  }
}

/** A text that YAML could also read as something else keeps both meanings until it is known which field it belongs to. */
export class Written {
  readonly text: string
  readonly value: unknown

  constructor(text: string, value: unknown) {
    this.text = text
    this.value = value
  }
}

function scalar(text: string): unknown {
  let value: unknown
  try {
    value = parse(text, { version: '1.1' })
  } catch {
    return text // no YAML, so it is a text
  }
  if (typeof value === 'string' && /^[+-]?[\d.]+(?:e[+-]?\d+)?$/i.test(value)) return new Written(text, Number(value))
  if (value === null && text === 'None') return null
  return typeof value === 'object' && value !== null ? value : new Written(text, value)
}

function set(target: Nested, path: readonly string[], value: unknown, written: string, ledger: Ledger): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    target[key] = value
    return
  }
  const inner = target[key]
  if (inner !== undefined && !isNested(inner)) {
    ledger.refuse(
      written,
      `--${written} contradicts --${written.split('.').slice(0, -rest.length).join('.')}.`,
      'Keep one.',
    )
    return
  }
  const nested = inner ?? {}
  target[key] = nested
  set(nested, rest, value, written, ledger)
}

/** Flags over a file, as LeRobot puts them: field by field. */
export function overlay(base: Nested, over: Nested): Nested {
  const merged: Nested = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const before = merged[key]
    merged[key] = isNested(value) && isNested(before) && !wholeValues.has(key) ? overlay(before, value) : value
  }
  return merged
}

/** Fields whose value is a record: it is replaced, not merged. */
const wholeValues = new Set(['rename_map', 'florence_config', 'features_map', 'tfs'])

/** A record of fields. */
export function isNested(value: unknown): value is Nested {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Written)
}
