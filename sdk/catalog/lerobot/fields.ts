/**
 * Tables of configuration fields of LeRobot's policies: type and default of each, and how a configuration is read against them.
 * A test holds every table equal to the fields of LeRobot's own configuration class.
 */
import * as z from 'zod'
import { MOST_LAYERS } from '../language.ts'

/** A field of a configuration: what it may be, and what LeRobot fills in. */
export interface Field<T = unknown> {
  readonly schema: z.ZodType<T>
  readonly default: T
}

/** Fields by LeRobot's own names. */
export type Fields = Readonly<Record<string, Field>>

/** The values of a table of fields, all of them filled in. */
export type Values<F extends Fields> = { readonly [K in keyof F]: F[K]['default'] }

/** What a user may say of a table of fields. Documentation of the table's entries shows in the editor. */
export type FieldOptions<F extends Fields> = { readonly [K in keyof F]?: F[K]['default'] }

// Made once: a schema for each of some two hundred fields would cost every command its start.
const whole = z.number().int()
const layered = whole.positive().max(MOST_LAYERS)
const anyLayered = whole.max(MOST_LAYERS)
const positive = whole.positive()
const positiveOrNull = positive.nullable()
const nonnegative = whole.nonnegative()
const real = z.number()
const realOrNull = real.nullable()
const flag = z.boolean()
const words = z.string().min(1)
const wordsOrNull = words.nullable()
const anyObject = z.record(z.string(), z.unknown())
const sides = z.tuple([positive, positive])
const rates = z.tuple([real, real])

/** A whole number above zero. */
export const integer = (value: number): Field<number> => ({ schema: positive, default: value })
/** Layers of a stack, whose parameters are listed one by one. */
export const layerCount = (value: number): Field<number> => ({ schema: layered, default: value })
/** The same, where LeRobot gives zero and below a meaning of their own. */
export const anyLayerCount = (value: number): Field<number> => ({ schema: anyLayered, default: value })
/** A whole number above zero, or null. */
export const integerOrNull = (value: number | null): Field<number | null> => ({
  schema: positiveOrNull,
  default: value,
})
/** A whole number from zero on. */
export const count = (value: number): Field<number> => ({ schema: nonnegative, default: value })
/** Any whole number; LeRobot gives zero and below a meaning of their own. */
export const anyInteger = (value: number): Field<number> => ({ schema: whole, default: value })
/** A number. */
export const number = (value: number): Field<number> => ({ schema: real, default: value })
/** A number or null. */
export const numberOrNull = (value: number | null): Field<number | null> => ({
  schema: realOrNull,
  default: value,
})
export const boolean = (value: boolean): Field<boolean> => ({ schema: flag, default: value })
export const text = (value: string): Field<string> => ({ schema: words, default: value })
export const textOrNull = (value: string | null): Field<string | null> => ({
  schema: wordsOrNull,
  default: value,
})
/** One of some words. */
export const choice = <const T extends string>(options: readonly [T, ...T[]], value: NoInfer<T>): Field<T> => ({
  schema: z.enum(options),
  default: value,
})
/** Height and width, or null. */
export const sizeOrNull = (value: readonly [number, number] | null): Field<readonly [number, number] | null> => ({
  schema: sides.nullable(),
  default: value,
})
/** Height and width. */
export const size = (value: readonly [number, number]): Field<readonly [number, number]> => ({
  schema: sides,
  default: value,
})
/** Two rates. */
export const pair = (value: readonly [number, number]): Field<readonly [number, number]> => ({
  schema: rates,
  default: value,
})
/** Whole numbers above zero. */
export const integers = (value: readonly number[]): Field<readonly number[]> => ({
  schema: z.array(positive).min(1),
  default: value,
})
/** Words. */
export const texts = (value: readonly string[]): Field<readonly string[]> => ({
  schema: z.array(z.string()),
  default: value,
})
/** Words, or null. */
export const textsOrNull = (value: readonly string[] | null): Field<readonly string[] | null> => ({
  schema: z.array(z.string()).nullable(),
  default: value,
})
/** An object of any content. */
export const object = (value: Readonly<Record<string, unknown>>): Field<Readonly<Record<string, unknown>>> => ({
  schema: anyObject,
  default: value,
})
/** An object of any content, or null. */
export const objectOrNull = (
  value: Readonly<Record<string, unknown>> | null,
): Field<Readonly<Record<string, unknown>> | null> => ({
  schema: anyObject.nullable(),
  default: value,
})

/** LeRobot's modes of normalisation. */
export type NormalizationMode = 'MEAN_STD' | 'MIN_MAX' | 'QUANTILES' | 'QUANTILE10' | 'IDENTITY'

/** The modes of the three kinds of features. */
export interface NormalizationModes {
  readonly VISUAL: NormalizationMode
  readonly STATE: NormalizationMode
  readonly ACTION: NormalizationMode
}

const mode = z.enum(['MEAN_STD', 'MIN_MAX', 'QUANTILES', 'QUANTILE10', 'IDENTITY'])

/** `normalization_mapping`; a policy may lack a kind of features. */
export const modesSchema = z.object({
  VISUAL: mode.exactOptional(),
  STATE: mode.exactOptional(),
  ACTION: mode.exactOptional(),
})

/** `normalization_mapping` of a policy that has all three kinds. */
export const modes = (value: NormalizationModes): Field<NormalizationModes> => ({
  schema: z.object({ VISUAL: mode, STATE: mode, ACTION: mode }),
  default: value,
})

/** A field that the pipeline decides in its own words, not in the policy's configuration. */
export interface Managed<T = unknown> extends Field<T> {
  /** Where it is said instead. */
  readonly by: string
}

/** Managed fields by LeRobot's own names. */
export type ManagedFields = Readonly<Record<string, Managed>>

/** Says where a field is decided instead. */
export const managed = <T>(field: Field<T>, by: string): Managed<T> => ({ ...field, by })

/**
 * Fields that every configuration inherits, with what decides them here. `n_obs_steps` and `normalization_mapping` stand in each
 * policy's own table. Source: lerobot/configs/policies.py.
 */
export const baseFields = {
  input_features: managed(object({}), 'data: cameras and widths'),
  output_features: managed(object({}), 'data: cameras and widths'),
  device: managed(textOrNull(null), 'hardware'),
  use_amp: managed(boolean(false), 'modules: dtype'),
  use_peft: managed(boolean(false), 'modules: adapt'),
  push_to_hub: managed(boolean(true), 'export'),
  repo_id: managed(textOrNull(null), 'export'),
  private: managed({ schema: z.boolean().nullable(), default: null as boolean | null }, 'export'),
  tags: managed(textsOrNull(null), 'export'),
  license: managed(textOrNull(null), 'export'),
  pretrained_path: managed(textOrNull(null), 'model: weights'),
  pretrained_revision: managed(textOrNull(null), 'model: revision'),
} as const satisfies ManagedFields

/** Something in a configuration that the policy refuses, or accepts and then fails or goes wrong with. */
export interface Problem {
  /** Field of the configuration, or 'cameras', 'images', 'state', 'action'. */
  readonly field: string
  readonly message: string
}

/** A configuration with everything that it leaves out filled in. */
export interface ReadConfig<F extends Fields> {
  readonly values: Values<F>
  /** Unknown fields and values of another type; such a value is read as the default, so that nothing may be built on it. */
  readonly problems: readonly Problem[]
}

/** Reads a configuration against the tables of a policy; `type` and the inherited fields may stand in it. */
export function readConfig<F extends Fields, M extends ManagedFields>(
  policy: string,
  fields: F,
  managedFields: M,
  config: Readonly<Record<string, unknown>>,
): ReadConfig<F & M> {
  const table: Fields = { ...fields, ...managedFields }
  const problems: Problem[] = []
  const values: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(table)) {
    if (!Object.hasOwn(config, name)) {
      values[name] = field.default
      continue
    }
    const parsed = field.schema.safeParse(config[name])
    values[name] = parsed.success ? parsed.data : field.default
    if (!parsed.success) {
      const because = parsed.error.issues[0]?.message ?? 'another type was expected'
      problems.push({ field: name, message: `${name} cannot be ${JSON.stringify(config[name])}: ${because}.` })
    }
  }
  for (const name of Object.keys(config)) {
    if (Object.hasOwn(table, name) || Object.hasOwn(baseFields, name) || name === 'type') continue
    problems.push({
      field: name,
      message: `The configuration of ${policy} in LeRobot 0.6.1 has no field '${name}'; LeRobot refuses to read it.`,
    })
  }
  // The keys are those of the tables, and each value passed its schema or is its default.
  return { values: values as Values<F & M>, problems }
}
